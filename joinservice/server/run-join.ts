import { SocketIssuer } from '../../internal/atls/remote/index.ts';
import type { AttestedPeer } from '../../internal/atls/index.ts';
import { createValidators, standardValidators } from '../../internal/attestation/policy/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import type { RpcServer, TlsIdentity } from '../../internal/rpc/index.ts';
import type { Curator } from '../curator/index.ts';
import { identityOnly, JoinService } from '../join/index.ts';
import { runEtcdPipe, SignerClient } from '../signerlink/index.ts';
import type { JoinserviceConfig } from './config.ts';
import { createJoinServer } from './join-listener.ts';
import type { ServePorts } from './serve.ts';

const GRACE_MS = 2_000;

/** Admission beside the curator, in the same process and on the same records. */
export interface JoinPart extends AsyncDisposable {
  readonly server: RpcServer<AttestedPeer>;
  readonly signer: SignerClient;
  /** Runs until the signal fires. */
  run(signal: AbortSignal): Promise<void>;
}

/** Listens, and is ready to be run. */
export async function openJoin(
  settings: NonNullable<JoinserviceConfig['join']>,
  parts: {
    readonly config: JoinserviceConfig;
    readonly ports: ServePorts;
    readonly etcd: KeySpace;
    readonly curator: Curator;
    readonly identity: TlsIdentity;
    readonly signal: AbortSignal;
    readonly onListening?: ((port: number) => void) | undefined;
  },
): Promise<JoinPart> {
  const { config, ports, etcd, curator, identity, signal } = parts;
  const { clock, files } = ports;
  const log = ports.log.child('join');
  const signer = new SignerClient({ path: settings.signer.socket });
  const { nodeId, clusterId } = config;
  const join = new JoinService({
    etcd,
    audit: curator.audit,
    signer,
    identity,
    clusterId,
    own: { nodeId, address: settings.address },
    listNodes: (listing) => curator.listNodes(listing),
    readAttestation: identityOnly,
    clock,
    log,
  });
  const { socket, variant } = settings.evidence;
  const server = createJoinServer({
    join,
    trust: {
      shows: [new SocketIssuer({ path: socket, variant })],
      accepts: createValidators(['tpm'], standardValidators({ ownerKeys: [] })),
    },
    clock,
    log,
    signal,
  });
  const port = await server.listen(settings.listen.host, settings.listen.port);
  log.info('the join service listens', { host: settings.listen.host, port });
  parts.onListening?.(port);
  const pipe = { path: settings.signer.etcdPipe, endpoint: config.etcd.endpoints[0], files, log };
  return {
    server,
    signer,
    run: async (running) => {
      await Promise.all([join.run(running), runEtcdPipe(pipe, running)]);
    },
    [Symbol.asyncDispose]: async () => {
      await server.close(GRACE_MS);
      signer[Symbol.dispose]();
    },
  };
}
