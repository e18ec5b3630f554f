"""A Spark Connect server on a free port, for all processes of a test run: it writes its address to
the file that it is given, and ends with the process whose number it is given, however that ends.
"""

from __future__ import annotations

import os
import select
import sys
import warnings

warnings.simplefilter("ignore")

from pyspark.sql import SparkSession  # noqa: E402

SETTINGS = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    # Small queries end before a thorough compiler has paid off; with room from the start, Java
    # rarely collects garbage.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m -Xmn256m"
        " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    ),
}


def main(address: str, owner: int) -> None:
    handle = os.pidfd_open(owner)
    ready = os.dup(1)  # the only copy of the pipe: Java inherits the first three files
    os.dup2(2, 1)
    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    services = session._jvm.org.apache.spark.sql.connect.service
    service = getattr(getattr(services, "SparkConnectService$"), "MODULE$")
    with open(f"{address}.part", "w") as file:
        file.write(f"sc://127.0.0.1:{service.localPort()}")
    os.rename(f"{address}.part", address)
    os.close(ready)  # whoever waits for the server reads to the end of it
    select.select([handle], [], [])
    session.stop()


main(sys.argv[1], int(sys.argv[2]))
