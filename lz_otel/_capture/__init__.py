"""What the host sends and receives, as notes: transports, SDK calls, attempts."""
