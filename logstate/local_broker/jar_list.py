"""Which jars a broker is made of: Maven coordinates, sizes in bytes, SHA-256.

This is what ``kafka_2.13`` of this version needs at run time by its own list, and a logging
backend, without what only other tools of it load (YAML and CSV files, the reflection of Scala). To
move to another version: have Maven copy the runtime dependencies of both, and write down what came.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

KAFKA_VERSION = "4.3.0"
"""The newest release whose broker artifacts are all published."""


class Jar(NamedTuple):
    """One file of a Maven repository."""

    coordinates: str
    """``group:artifact:version``"""
    size_bytes: int
    sha256: str

    @property
    def file_name(self) -> str:
        """The name in the repository, and in the cache."""
        _group, artifact, version = self.coordinates.split(":")
        return f"{artifact}-{version}.jar"

    @property
    def path(self) -> str:
        """The path in a repository."""
        group, artifact, version = self.coordinates.split(":")
        return f"{group.replace('.', '/')}/{artifact}/{version}/{self.file_name}"


def _listed(text: str) -> Iterator[Jar]:
    words = iter(text.split())
    for coordinates, size, sha256 in zip(words, words, words, strict=True):
        yield Jar(coordinates, int(size), sha256)


# The broker's own list has no logging backend (its tarball adds one), and a broker without a log
# file cannot be helped: log4j-slf4j-impl speaks the slf4j 1.7 that the broker asks for.
BROKER = tuple(
    _listed("""
at.yawk.lz4:lz4-java:1.10.2 1002267
  252dabd586d22149a31661a8afc1a50747714eb1a298bd4a6e780c8c91a13866
com.dynatrace.hash4j:hash4j:0.22.0 316573
  23028a3fd006e530bf495f551083208187cafd8f80624d048eba56442f16a50e
com.fasterxml.jackson.core:jackson-annotations:2.21 82104
  53ca085f4a150f703f49e1aabd935bd03b43e1ea3d55d135438292af22cef56b
com.fasterxml.jackson.core:jackson-core:2.21.2 595531
  12e8655b100267b44d0f14d01b1f5082a5105e616174dc4307be1a761e92407b
com.fasterxml.jackson.core:jackson-databind:2.21.2 1701926
  8c982f01f148d805f0aaac2339011244757e0df7c6ff8951f2fa3f433b8ed849
com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.21.2 36037
  e581bbf3fc5622d16b57366dd41e10fc56921fb202879de2ef487f87dd9b30e7
com.github.ben-manes.caffeine:caffeine:3.2.0 906581
  ec411dfdf0c03f25218648ce89861630b71680e5858a9a7278ebac8e55cab3d7
com.github.luben:zstd-jni:1.5.6-10 7305999
  b6c3237e24b8252a5a9c3a0e1ae30ef8f323412e74bd358548b7a9e527d676df
com.google.re2j:re2j:1.8 114335
  7b52c72156dd7f98b3237a5b35c1d34fba381b21048c89208913ad80a45dfbd7
com.typesafe.scala-logging:scala-logging_2.13:3.9.6 61614
  0ad0c3f4d89d538b3b6c300158555e266aa69cf1b5f6522aba8b5bad238eb994
com.yammer.metrics:metrics-core:2.2.0 82123
  6b7a14a6f34c10f8683f7b5e2f39df0f07b58c7dff0e468ebbc713905c46979c
commons-logging:commons-logging:1.3.5 73737
  6d7a744e4027649fbb50895df9497d109f98c766a637062fe8d2eabbb3140ba4
commons-validator:commons-validator:1.10.1 203132
  ed74711a78d793ca37f6075e4a1e93d107233dfd20d0bb17e32bad88d38e56aa
net.sf.jopt-simple:jopt-simple:5.0.4 78146
  df26cc58f235f477db07f753ba5a3ab243ebe5789d9f89ecf68dd62ea9a66c28
net.sourceforge.argparse4j:argparse4j:0.7.0 90347
  65ceb669d88f63306c680f8088bbf765bbca72d288a61a03703000076c3d3f56
org.apache.kafka:kafka-clients:4.3.0 10200223
  97a5b492d4ad658fd2dfba969fa0e403c2e38c971fb1e083da4e391471925fc1
org.apache.kafka:kafka-coordinator-common:4.3.0 124170
  245f2d1ebe0559efb7fc7615cda06f5c25b47e98d137a354a05cc50687821244
org.apache.kafka:kafka-group-coordinator-api:4.3.0 11807
  c78dbb49e91bb0f735dc03d07a66f1cb1c0e1db4bf6c2d9a57811c744d93ca5b
org.apache.kafka:kafka-group-coordinator:4.3.0 976578
  98bf277fca9facf134a7599a5c13dc146b9fbaf5ce961dd412914d3ff9b44356
org.apache.kafka:kafka-metadata:4.3.0 877009
  4cf62c7bea64ff57ccd150ac457b02216e28801472caefd436377cbedd29a1c5
org.apache.kafka:kafka-raft:4.3.0 333497
  7517424a299da3e9fcdeccd52058b3ca6e95a1ed7feb9a32c3e12836d02cff8d
org.apache.kafka:kafka-server-common:4.3.0 389964
  f272a83ad222b2747635239cdb2601c0a3f83fc874b4a1adf104afb8daf66133
org.apache.kafka:kafka-server:4.3.0 385215
  4e94e517a4b1c86ee1d41401d0c394556880abba515c7ca4f4eb229a4673422c
org.apache.kafka:kafka-share-coordinator:4.3.0 113503
  3848748f35dfe8b3b8e39cc546d129e586b5e039f0d10459d4b0bf05cefdecaa
org.apache.kafka:kafka-storage-api:4.3.0 28500
  dd4e05a693dd9e546545a70cff6c36b4125fefd067df6126541e23156df315e6
org.apache.kafka:kafka-storage:4.3.0 610223
  9e13c0cd8de0bf1fc24cad5d498b21c6683815e771a7148c43fac79b6a515c79
org.apache.kafka:kafka-tools-api:4.3.0 9072
  4794083021c84cb068f0865308791f076e66e609db5ba6f6aaed858aedacb926
org.apache.kafka:kafka-transaction-coordinator:4.3.0 68622
  1f6cb1ebf449a6772ca22f7470b206a1845bd172fe64131848c80be7c13aa096
org.apache.kafka:kafka_2.13:4.3.0 1621522
  e3669cb733f657689f71cba145af51022f29cebba81d8bf69699274b46c70da8
org.apache.logging.log4j:log4j-api:2.25.4 351127
  c4b642a7f047275215de117e0e3847eb2c7711d84a0aa7433e7b3c096daf341d
org.apache.logging.log4j:log4j-core:2.25.4 2023860
  10fee2c0485d54fa44ee75d314f6295508f7b932281873db61a91b88073200e6
org.apache.logging.log4j:log4j-slf4j-impl:2.25.4 25388
  7ac68a0afcc83d54f48d116d79370a43f0a2a6b71b5c1d6dda943bb6a95ddbaa
org.bitbucket.b_c:jose4j:0.9.6 299502
  7314af50cde9c99e8eaf43eee617a23edcc6bb43036221064355094999d837ef
org.hdrhistogram:HdrHistogram:2.2.2 177206
  22d1d4316c4ec13a68b559e98c8256d69071593731da96136640f864fa14fad8
org.pcollections:pcollections:4.0.2 73718
  2bbeef5797a241300c4f7513cd546239629ed7deda4fc0c31df90bb95f5f13ef
org.scala-lang:scala-library:2.13.18 5940741
  4e85d96ff7bc7dc627985523c3541b9917aaa08e956391380c42db21a2c4e5a0
org.slf4j:slf4j-api:1.7.36 41125
  d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0
org.xerial.snappy:snappy-java:1.1.10.7 2338496
  4c766cb3f855415ee734b2392949a0b6f12a60879334a74518deaf6270d32e36
""")
)
