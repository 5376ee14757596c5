"""Panels by meaning, so that a dashboard reads as a list of questions.

A :class:`Tile` is a finished panel with its size; :mod:`.board` puts tiles into rows. Expressions come from
the builder only (:class:`~lz_otel.bundle.promql.Expr`).
"""

from __future__ import annotations

from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, NamedTuple

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    heatmap,
    prometheus,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.builders import stat as stat_builder
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import heatmap as heat
from grafana_foundation_sdk.models import prometheus as prom

from lz_otel.bundle.dashboards import style

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lz_otel.bundle.dashboards.style import Steps
    from lz_otel.bundle.promql import Expr

SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
Size = tuple[int, int]


class Query(NamedTuple):
    """One query of a panel.

    Attributes:
        expr: from the builder.
        legend: name of the series; ``{{label}}`` for one per label value.
        colour: of this series, whatever else the panel says.
        steps: thresholds of this series, in a panel of several numbers.
    """

    expr: Expr
    legend: str = ""
    colour: str = ""
    steps: Steps = ()


class Column(NamedTuple):
    """One column of a table: its heading, expression and look; ``gauge`` draws a bar in the cell."""

    name: str
    expr: Expr
    unit: str = "short"
    steps: Steps = ()
    decimals: int | None = None
    gauge: bool = False
    max: float | None = None


class Tile(NamedTuple):
    """A panel and its size on the grid of 24 columns."""

    panel: Any
    width: int
    height: int


def _target(
    query: Expr, legend: str, ref: str, *, instant: bool = False, form: Any = prom.PromQueryFormat.TIME_SERIES
) -> prometheus.Dataquery:
    target = prometheus.Dataquery().datasource(SOURCE).expr(query.text).legend_format(legend or "__auto")
    target = target.ref_id(ref).format(form)
    return target.instant() if instant else target.range()


def _begin(
    builder: Any, title: str, text: str, size: Size, empty: str, unit: str, decimals: int | None = None
) -> Any:
    panel = builder.title(title).description(text).datasource(SOURCE).span(size[0]).height(size[1])
    panel = panel.no_value(empty).unit(unit)
    return panel if decimals is None else panel.decimals(decimals)


def _steps(steps: Steps) -> dashboard.ThresholdsConfig:
    points = [model.Threshold(value=v, color=colour) for v, colour in steps]
    return dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(points)


def _properties(**look: Any) -> list[model.DynamicConfigValue]:
    """Return properties of an override; ``custom_x`` stands for ``custom.x``."""
    return [
        model.DynamicConfigValue(id_val=name.replace("_", "."), value=value) for name, value in look.items()
    ]


def _hue(mode: str, colour: str) -> dict[str, str]:
    return {"mode": mode, "fixedColor": colour}


def _step_values(steps: Steps) -> dict[str, Any]:
    return {"mode": "absolute", "steps": [{"value": v, "color": colour} for v, colour in steps]}


def _legend() -> common.VizLegendOptions:
    legend = common.VizLegendOptions().show_legend(True).placement(kinds.LegendPlacement.BOTTOM)
    return legend.display_mode(kinds.LegendDisplayMode.LIST)


def _refs(count: int) -> str:
    return ascii_uppercase[:count]


def _with_queries(panel: Any, queries: Sequence[Query], *, instant: bool = False) -> Any:
    for ref, query in zip(_refs(len(queries)), queries, strict=True):
        panel = panel.with_target(_target(query.expr, query.legend, ref, instant=instant))
        if query.colour:
            panel = panel.override_by_query(ref, _properties(color=_hue("fixed", query.colour)))
        if query.steps:
            panel = panel.override_by_query(ref, _properties(thresholds=_step_values(query.steps)))
    return panel


def _words(values: Mapping[int, tuple[str, str]]) -> model.ValueMap:
    """Return what shows each number as its word, in its colour."""
    return model.ValueMap(
        options={
            str(value): model.ValueMappingResult(text=word, color=colour, index=i)
            for i, (value, (word, colour)) in enumerate(values.items())
        }
    )


def stat(
    title: str,
    text: str,
    *queries: Query,
    unit: str,
    size: Size = (4, 4),
    steps: Steps = (),
    decimals: int | None = None,
    empty: str,
    background: bool = False,
    values: Mapping[int, tuple[str, str]] | None = None,
) -> Tile:
    """Return numbers of this moment or over the range, by instant queries: what is gone is not shown."""
    several = len(queries) > 1
    panel = (
        _begin(stat_builder.Panel(), title, text, size, empty, unit, decimals)
        .thresholds(_steps(steps or ((None, style.NEUTRAL),)))
        .color_scheme(dashboard.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
        .graph_mode(kinds.BigValueGraphMode.NONE)
        .color_mode(kinds.BigValueColorMode.BACKGROUND if background else kinds.BigValueColorMode.VALUE)
        .text_mode(kinds.BigValueTextMode.VALUE_AND_NAME if several else kinds.BigValueTextMode.VALUE)
        .justify_mode(kinds.BigValueJustifyMode.CENTER)
        .orientation(kinds.VizOrientation.VERTICAL if several else kinds.VizOrientation.AUTO)
        .wide_layout(True)
    )
    if values:
        panel = panel.mappings([_words(values)])
    return Tile(_with_queries(panel, queries, instant=True), *size)


def lines(
    title: str,
    text: str,
    *queries: Query,
    unit: str,
    size: Size = (8, 7),
    stacked: bool = False,
    log: bool = False,
    limits: Steps = (),
    colours: Mapping[str, str] | None = None,
    axis: tuple[float | None, float | None] = (0, None),
    interval: str = "",
    decimals: int | None = None,
    empty: str,
    shades: str = style.OPEN,
    patterns: Mapping[str, str] | None = None,
) -> Tile:
    """Return a chart of curves over time.

    Args:
        limits: dashed lines, from the configuration.
        colours: colour by name of series.
        shades: hue of the series that have no colour of their own.
        patterns: hue by regular expression over names.
    """
    tooltip = common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI)
    dashed = kinds.GraphThresholdsStyleMode.DASHED if limits else kinds.GraphThresholdsStyleMode.OFF
    panel = (
        _begin(timeseries.Panel(), title, text, size, empty, unit, decimals)
        .legend(_legend().calcs([]))
        .tooltip(tooltip.sort(kinds.SortOrder.DESCENDING))
        .line_width(1 if stacked else 2)
        .fill_opacity(45 if stacked else 0)
        .show_points(kinds.VisibilityMode.NEVER)
        .span_nulls(False)
        .thresholds(_steps(limits or ((None, style.GOOD),)))
        .thresholds_style(common.GraphThresholdsStyleConfig().mode(dashed))
        .color_scheme(dashboard.FieldColor().mode(model.FieldColorModeId.SHADES).fixed_color(shades))
    )
    low, high = axis
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A"))
    if log:
        scale = common.ScaleDistributionConfig().type(kinds.ScaleDistribution.LOG)
        panel = panel.scale_distribution(scale.log(10))
    elif low is not None:
        panel = panel.min(low) if high is not None or low == 0 else panel.axis_soft_min(low)
    if high is not None:
        panel = panel.max(high)
    if interval:
        panel = panel.interval(interval)
    if patterns is None and shades == style.OPEN and any(q.legend.startswith("{{") for q in queries):
        patterns = style.OPEN_HUES
    for pattern, hue in (patterns or {}).items():
        panel = panel.override_by_regexp(f"/{pattern}/", _properties(color=_hue("shades", hue)))
    for name, colour in (colours or {}).items():
        panel = panel.override_by_name(name, _properties(color=_hue("fixed", colour)))
    return Tile(_with_queries(panel, queries), *size)


def distribution(
    title: str, text: str, expr: Expr, *, unit: str = "s", size: Size = (12, 9), empty: str
) -> Tile:
    """Return a heatmap of histogram buckets: two bands are two modes, which no percentile shows."""
    colours = heatmap.HeatmapColorOptions().mode(heat.HeatmapColorMode.SCHEME).scheme("Blues")
    panel = (
        _begin(heatmap.Panel(), title, text, size, empty, "reqps")
        .calculate(False)
        .color(colours.steps(64).reverse(False))
        .filter_values(heatmap.FilterValueRange().le(1e-9))
        .y_axis(heatmap.YAxisConfig().unit(unit))
        .cell_gap(1)
        .show_legend()
        .mode(kinds.TooltipDisplayMode.SINGLE)
        .with_target(_target(expr, "{{le}}", "A", form=prom.PromQueryFormat.HEATMAP))
    )
    return Tile(panel, *size)


def _column_look(column: Column) -> dict[str, Any]:
    look: dict[str, Any] = {"unit": column.unit, "noValue": "-"}
    if column.decimals is not None:
        look["decimals"] = column.decimals
    if column.max is not None:
        look |= {"min": 0, "max": column.max}
    if column.steps:
        look["thresholds"] = _step_values(column.steps)
    if column.gauge:
        look["custom_cellOptions"] = {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}
        if not column.steps:
            look["color"] = _hue("fixed", style.NEUTRAL)
    elif column.steps:
        look["custom_cellOptions"] = {"type": "color-text"}
    return look


def sum_up(
    title: str,
    text: str,
    by: Mapping[str, str],
    *columns: Column,
    size: Size = (12, 8),
    sort: str = "",
    empty: str,
    link: tuple[str, str] | None = None,
) -> Tile:
    """Return a table over the range: one line per set of labels, one column per query.

    Args:
        by: label -> heading, in order.
        sort: heading of the column to sort by, greatest first; default the first column.
        link: title and address of the first label's cells.
    """
    refs = _refs(len(columns))
    panel = (
        _begin(table.Panel(), title, text, size, empty, "short")
        .thresholds(_steps(((None, "transparent"),)))
        .cell_height(kinds.TableCellHeight.SM)
        .filterable(False)
        .min_width(50)
        .sort_by([common.TableSortByFieldState().display_name(sort or columns[0].name).desc(True)])
    )
    for ref, column in zip(refs, columns, strict=True):
        target = _target(column.expr, "", ref, instant=True, form=prom.PromQueryFormat.TABLE)
        panel = panel.with_target(target)
        panel = panel.override_by_name(column.name, _properties(**_column_look(column)))
    for label, heading in by.items():
        look: dict[str, Any] = {"noValue": "(no operation)" if label == "lz_route" else "-"}
        look["custom_minWidth"] = 100
        if label == "gen_ai_request_model" and len(columns) > 3:
            look["custom_width"] = 150
        if link:
            look["links"] = [{"title": link[0], "url": link[1]}]
            link = None
        panel = panel.override_by_name(heading, _properties(**look))
    values = [f"Value #{ref}" for ref in refs] if len(columns) > 1 else ["Value"]
    names = {**by, **dict(zip(values, (column.name for column in columns), strict=True))}
    if len(columns) > 1:
        panel = panel.with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
    order = {name: i for i, name in enumerate(names)}
    options = {"excludeByName": {"Time": True}, "indexByName": order, "renameByName": names}
    panel = panel.with_transformation(model.DataTransformerConfig(id_val="organize", options=options))
    return Tile(panel, *size)


def states(
    title: str, text: str, query: Query, values: Mapping[int, tuple[str, str]], *, size: Size, empty: str
) -> Tile:
    """Return the states over time; ``values`` gives each number its word and colour."""
    panel = (
        _begin(statetimeline.Panel(), title, text, size, empty, "none")
        .mappings([_words(values)])
        .color_scheme(dashboard.FieldColor().mode(model.FieldColorModeId.FIXED).fixed_color(style.GIVEN_UP))
        .show_value(kinds.VisibilityMode.NEVER)
        .row_height(0.8)
        .merge_values(True)
        .legend(_legend())
        .with_target(_target(query.expr, query.legend, "A"))
    )
    return Tile(panel, *size)
