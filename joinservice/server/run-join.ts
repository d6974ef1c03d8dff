import { SocketIssuer } from '../../internal/atls/evidencesocket/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import type { FilePort, StreamPort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { TlsIdentity } from '../../internal/rpc/index.ts';
import type { OwnerDocuments } from '../ownerdocs/index.ts';
import type { Curator } from '../curator/index.ts';
import { joinValidators, type ActiveAttestation, type ClusterCollateral } from '../evidence/index.ts';
import { JoinService } from '../join/index.ts';
import { runEtcdPipe, type SignerClient } from '../signerlink/index.ts';
import type { JoinserviceConfig } from './joinservice-config.ts';
import { createJoinServer } from './join-listener.ts';

const GRACE_MS = 2_000;

/** The access of this program to files, the clock and the log. */
export interface ServePorts {
  readonly files: FilePort;
  readonly streams: StreamPort;
  readonly clock: Clock;
  readonly log: Logger;
}

type JoinSettings = NonNullable<JoinserviceConfig['join']>;

/** The parts that the join service shares with the curator. */
export interface JoinParts {
  readonly config: JoinserviceConfig;
  readonly ports: ServePorts;
  readonly etcd: KeySpace;
  readonly ownerDocs: OwnerDocuments;
  readonly curator: Curator;
  readonly signer: SignerClient;
  readonly identity: TlsIdentity;
  /** The cluster CAs that this node trusts, a PEM bundle. */
  readonly clusterCaPem: string;
  readonly collateral: ClusterCollateral;
  /** Called with the port each time the listener is opened. */
  readonly onListening?: ((port: number) => void) | undefined;
}

/** Runs the join service in the process of the curator until the signal fires. */
export async function runJoin(settings: JoinSettings, parts: JoinParts, signal: AbortSignal): Promise<void> {
  const { config, ports, curator } = parts;
  const log = ports.log.child('join');
  const join = new JoinService({
    ...parts,
    audit: curator.audit,
    clusterId: config.clusterId,
    own: { nodeId: config.nodeId, address: settings.address },
    listNodes: (listing) => curator.listNodes(listing),
    clock: ports.clock,
    log,
  });
  const pipe = {
    path: settings.signer.etcdPipe,
    endpoint: config.etcd.endpoints[0],
    files: ports.files,
    log,
  };
  await Promise.all([
    join.run(signal),
    runEtcdPipe(pipe, signal),
    runListener(settings, join, parts, signal),
  ]);
}

/**
 * Opens the port for joining machines when the first configuration is known, and opens it again when the accepted variants of
 * evidence change. Other changes apply to the next connection.
 */
async function runListener(
  settings: JoinSettings,
  join: JoinService,
  { ports, onListening }: JoinParts,
  signal: AbortSignal,
): Promise<void> {
  const { clock } = ports;
  const log = ports.log.child('join');
  const { socket, variant } = settings.evidence;
  using watcher = join.attestation.watch();
  let now = await watcher.next(signal);
  for (;;) {
    const trust = {
      shows: [new SocketIssuer({ path: socket, variant })],
      accepts: joinValidators(now.variants),
    } as const;
    await using server = createJoinServer({ join, trust, clock, log, signal });
    const port = await server.listen(settings.listen.host, settings.listen.port);
    log.info('join service listening', { host: settings.listen.host, port, variants: now.variants });
    onListening?.(port);
    const before = now;
    try {
      do now = await watcher.next(signal);
      while (hasSameVariants(before, now));
    } finally {
      await server.close(GRACE_MS);
    }
  }
}

function hasSameVariants(a: ActiveAttestation, b: ActiveAttestation): boolean {
  return a.variants.join(' ') === b.variants.join(' ');
}
