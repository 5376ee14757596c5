"""A dashboard: variables, links, annotations and rows of tiles, with positions and ids that never vary."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from lz_otel import catalogue as c
from lz_otel.bundle._labels import VARIABLES
from lz_otel.bundle.config import DASHBOARD_FILES, dashboard_uid
from lz_otel.bundle.dashboards.panels import SOURCE
from lz_otel.bundle.promql import ALERTS, Builder, Regex, Var

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lz_otel.bundle.dashboards.panels import Tile
    from lz_otel.bundle.promql import Expr

TAG = "lz-otel"
_ALL = model.VariableOption(text="All", value="$__all", selected=True)


def label_values(
    name: str,
    label: str,
    series: str,
    *,
    title: str = "",
    everything: str = ".*",
    regex: str = "",
    multi: bool = True,
) -> Any:
    """Return a variable with the values of a label.

    ``allValue`` is ``.*``: calls outside an operation have an empty route, operations have no model.
    """
    query: dict[str, object] = {"query": f"label_values({series}, {label})", "refId": f"{name}-values"}
    variable = dashboard.QueryVariable(name).label(title or name).datasource(SOURCE).query(query)
    variable = variable.refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
    variable = variable.sort(model.VariableSort.ALPHABETICAL_ASC).regex(regex).multi(multi)
    if not everything:
        return variable
    return variable.include_all(True).all_value(everything).current(_ALL)


def choice(name: str, title: str, *values: str) -> Any:
    """Return a variable with a fixed list; the first value is the default."""
    options = [model.VariableOption(text=v, value=v, selected=v == values[0]) for v in values]
    variable = dashboard.CustomVariable(name).label(title).values(",".join(values))
    return variable.current(options[0]).options(options)


def text_box(name: str, title: str, default: str) -> Any:
    """Return a variable to type in."""
    option = model.VariableOption(text=default, value=default, selected=True)
    variable = dashboard.TextBoxVariable(name).label(title).default_value(default)
    return variable.current(option).options([option])


class Board:
    """One dashboard in the making.

    Args:
        name: short name, a key of ``DASHBOARD_FILES``.
        title: shown in Grafana.
        text: what question it answers.
        hours: default range.
        variables: names out of ``VARIABLES``, in that order.
        extra: further variables.
        source: series that the variables take their values from; it must carry their labels.
    """

    def __init__(
        self,
        name: str,
        title: str,
        text: str,
        *,
        hours: int = 6,
        variables: Sequence[str] = tuple(VARIABLES),
        extra: Sequence[Any] = (),
        source: str = "",
    ) -> None:
        self._id = 0
        self._y = 0
        job = Builder({"job": Var("job")})
        calls = source or job.gauge(c.CALL_ACTIVE).text
        link = dashboard.DashboardLink("LLM dashboards").type(model.DashboardLinkType.DASHBOARDS).tags([TAG])
        link = link.keep_time(True).include_vars(True).as_dropdown(False).target_blank(False)
        board = dashboard.Dashboard(f"LLM / {title}").uid(dashboard_uid(name)).description(text).tags([TAG])
        board = board.time(f"now-{hours}h", "now").timezone("browser").refresh("30s").readonly()
        board = board.tooltip(model.DashboardCursorSync.CROSSHAIR).link(link)
        source_variable = dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
        board = board.with_variable(source_variable)
        for variable in variables:
            series = {"job": Builder().gauge(c.BUILD_INFO).text, "instance": job.gauge(c.BUILD_INFO).text}
            values = label_values(variable, VARIABLES[variable], series.get(variable, calls))
            board = board.with_variable(values)
        for variable in extra:
            board = board.with_variable(variable)
        scope = {name: Var(name) for name in ("job", "instance") if name in variables}
        builds = Builder(scope).gauge(c.BUILD_INFO)
        new = builds.count("version").unless(builds.at_offset("5m").count("version"))
        alerts = job.gauge(ALERTS, alertname=Regex("LLM.+"), alertstate="firing", severity="critical")
        self._marks = {"New version": "{{version}}", "Pages": "{{alertname}}"}
        board = board.annotation(_annotation("New version", new, "purple"))
        self.board = board.annotation(_annotation("Pages", alerts, "red"))
        self.name = name

    @property
    def file(self) -> str:
        """Return the name of the JSON file."""
        return DASHBOARD_FILES[self.name]

    def row(self, title: str, *tiles: Tile, collapsed: bool = False, repeat: str = "") -> None:
        """Add a row of tiles, wrapped at 24 columns; without a title there is no heading."""
        row = None
        if title:
            row = dashboard.Row(title).id(self._next()).collapsed(collapsed)
            row = row.grid_pos(model.GridPos(h=1, w=24, x=0, y=self._y))
            self._y += 1
            if repeat:
                row = row.repeat(repeat)
        begin, x, tall = self._y, 0, 0
        placed = []
        for tile in tiles:
            if x + tile.width > 24:
                x, self._y, tall = 0, self._y + tall, 0
            at = model.GridPos(h=tile.height, w=tile.width, x=x, y=self._y)
            placed.append(tile.panel.id(self._next()).grid_pos(at))
            x, tall = x + tile.width, max(tall, tile.height)
        self._y += tall
        if row is not None and collapsed:
            for panel in placed:
                row = row.with_panel(panel)
            self._y, placed = begin, []
        if row is not None:
            self.board = self.board.with_row(row)
        for panel in placed:
            self.board = self.board.with_panel(panel)

    def json(self) -> str:
        """Return the dashboard as text, the same on every run."""
        board = json.loads(JSONEncoder(sort_keys=True).encode(self.board.build()))
        for mark in board["annotations"]["list"]:
            # Keys of the Prometheus data source, which the SDK's model does not know.
            mark |= {"titleFormat": self._marks[mark["name"]], "step": "60s", "useValueForTime": False}
        return json.dumps(board, sort_keys=True, indent=2, ensure_ascii=False) + "\n"

    def _next(self) -> int:
        self._id += 1
        return self._id


def _annotation(name: str, expr: Expr, colour: str) -> Any:
    built = dashboard.AnnotationQuery().name(name).datasource(SOURCE).enable(True).hide(False)
    return built.icon_color(colour).expr(expr.text)
