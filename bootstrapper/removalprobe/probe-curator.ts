import { describeError } from '../../internal/errors/index.ts';
import { verifyCuratorCertificate } from '../../internal/pki/index.ts';
import { createClient, RemoteError, RpcChannel, tlsClientUpgrade } from '../../internal/rpc/index.ts';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { ProbeAnswer } from './probe-endpoint.ts';
import type { TestCertificate } from './test-credentials.ts';

const KNOCK_MS = 5_000;

/** A call that every member may make, at a curator that itself has to show a node's certificate of this cluster. */
export async function probeCurator(
  at: {
    readonly host: string;
    readonly port: number;
    readonly clusterId: string;
    readonly serverCaPem: string;
    readonly nowMs: () => number;
  },
  { certPem, keyPem }: TestCertificate,
  signal: AbortSignal,
): Promise<ProbeAnswer> {
  const { host, port, clusterId, serverCaPem: caPem, nowMs } = at;
  using channel = new RpcChannel({
    endpoint: `${host.includes(':') ? `[${host}]` : host}:${port}`,
    upgrade: tlsClientUpgrade({
      identity: { certPem, keyPem },
      accept: (certificate) => verifyCuratorCertificate(certificate, { caPem, clusterId, nowMs }),
    }),
  });
  try {
    await createClient(Curator, channel).checkHealth({}, { signal, timeoutMs: KNOCK_MS });
    return { kind: 'status', status: 200, body: '' };
  } catch (error) {
    signal.throwIfAborted();
    return error instanceof RemoteError
      ? { kind: 'code', code: String(error.code) }
      : { kind: 'failed', why: describeError(error) };
  }
}
