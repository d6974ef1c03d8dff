import { fromBinary } from '@bufbuild/protobuf';
import { createPublicKey, verify, type X509Certificate } from 'node:crypto';
import { InitResultSchema } from '../../../initproto/gen/init_pb.js';
import { childSignal, withTimeout } from '../../../internal/cleanup/index.ts';
import { ownershipStatement, selfSignedCertificate } from '../../../internal/crypto/index.ts';
import { verifyCuratorCertificate } from '../../../internal/pki/index.ts';
import { createClient, RpcChannel, tlsClientUpgrade } from '../../../internal/rpc/index.ts';
import type { Secret } from '../../../internal/secret/index.ts';
import { Curator, type GetInitResultResponse } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../../app/command.ts';
import type { InitStateResult, OwnerKey } from '../../workspace/index.ts';
import { ClusterError } from '../errors.ts';
import { verifyInitResult } from './init-result.ts';

const MAX_PLACES = 16;
const ALL_MS = 10_000;

export interface RecoverOptions {
  /** Where curators of the cluster may be, "host:port". */
  readonly endpoints: readonly string[];
  readonly initId: string;
  readonly clusterId: string;
  readonly ownerKey: OwnerKey;
  readonly adminKeyPem: Secret<string>;
}

/**
 * The result of an init whose machine has closed its Init service, for a workspace that has lost it: every curator gives it
 * to the owner's bare key. Which cluster that is, is told by the signature that this owner made at the acknowledgement;
 * who answers must be a node of that cluster. undefined where nobody has it for us: then there is none, or the machine
 * itself still answers.
 */
export async function recoverResult(
  context: Pick<CommandContext, 'host' | 'ports' | 'signal'>,
  options: RecoverOptions,
): Promise<InitStateResult | undefined> {
  const { clock } = context.ports;
  const { keyPem } = options.ownerKey;
  const certPem = await selfSignedCertificate({
    keyPem: keyPem.reveal(),
    commonName: 'owner',
    nowMs: clock.nowMs(),
  });
  const limit = { what: 'asking curators for the result', ms: ALL_MS, clock, signal: context.signal };
  try {
    return await withTimeout(limit, async (signal) => {
      using asking = childSignal(signal);
      const { promise: first, resolve } = Promise.withResolvers<InitStateResult>();
      // All at once: the first machine, of all of them, may be the one that is gone without a word.
      const asked = options.endpoints.slice(0, MAX_PLACES).map(async (endpoint) => {
        const found = await askOne(context, options, { endpoint, certPem, signal: asking.signal });
        if (found !== undefined) resolve(found);
      });
      try {
        return await Promise.race([first, Promise.all(asked).then(() => undefined)]);
      } finally {
        asking.abort(new Error('one has answered'));
      }
    });
  } catch (error) {
    context.signal.throwIfAborted();
    context.host.say('init-not-recovered', 'No curator gave the result in time', { error: String(error) });
    return undefined;
  }
}

async function askOne(
  { host, ports }: Pick<CommandContext, 'host' | 'ports'>,
  options: RecoverOptions,
  at: { readonly endpoint: string; readonly certPem: string; readonly signal: AbortSignal },
): Promise<InitStateResult | undefined> {
  const { endpoint, certPem, signal } = at;
  let shown: X509Certificate | undefined;
  using channel = new RpcChannel({
    endpoint,
    upgrade: tlsClientUpgrade({
      clock: ports.clock,
      identity: { certPem, keyPem: options.ownerKey.keyPem },
      // Whose it must be is known with the answer; nothing that is secret is in the question.
      accept: (certificate) => (shown = certificate),
    }),
  });
  try {
    const request = { initId: options.initId };
    const response = await createClient(Curator, channel).getInitResult(request, {
      signal,
      timeoutMs: ALL_MS,
    });
    if (response.ownershipSignature.length === 0) return undefined; // not acknowledged: its machine still serves it
    return verified(response, { ...options, shown, nowMs: () => ports.clock.nowMs() });
  } catch (error) {
    signal.throwIfAborted();
    const isForged = error instanceof ClusterError;
    if (isForged) host.warn('init-recovery-refused', `${endpoint}: ${error.message}`);
    return undefined; // nobody there, a stranger, or a cluster that does not know us: the machine itself is asked next
  }
}

function verified(
  response: GetInitResultResponse,
  by: RecoverOptions & { readonly shown: X509Certificate | undefined; readonly nowMs: () => number },
): InitStateResult {
  const { clusterId, ownerKey, adminKeyPem, shown, nowMs } = by;
  const parsed = fromBinary(InitResultSchema, response.result);
  const result = verifyInitResult(parsed, { clusterId, ownerKeyPem: ownerKey.keyPem, adminKeyPem });
  const statement = ownershipStatement({ ...result, epoch: BigInt(result.epoch) });
  const ownPubKey = createPublicKey(ownerKey.keyPem.reveal());
  if (!verify(undefined, statement, ownPubKey, response.ownershipSignature))
    throw new ClusterError(
      'cluster-result-invalid',
      'recovering the result: it is not signed by our owner key',
    );
  try {
    if (shown === undefined) throw new TypeError('nobody has shown a certificate');
    verifyCuratorCertificate(shown, { caPem: result.clusterCaPem, clusterId, nowMs });
  } catch (cause) {
    throw new ClusterError(
      'cluster-result-invalid',
      'recovering the result: another one than the cluster gave it',
      {
        cause,
      },
    );
  }
  return result;
}
