import { fromBinary } from '@bufbuild/protobuf';
import { createPublicKey, verify, type X509Certificate } from 'node:crypto';
import { InitResultSchema } from '../../../initproto/gen/init_pb.js';
import { childSignal, withTimeout } from '../../../internal/cleanup/index.ts';
import {
  ed25519PubKeyFrom,
  ownershipStatement,
  selfSignedCertificate,
} from '../../../internal/crypto/index.ts';
import { verifyCuratorCertificate } from '../../../internal/pki/index.ts';
import { createClient, RpcChannel, tlsClientUpgrade } from '../../../internal/rpc/index.ts';
import type { Secret } from '../../../internal/secret/index.ts';
import { Curator, type GetInitResultResponse } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import {
  OperatorApi,
  type GetClusterCaResponse,
} from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../../app/command.ts';
import type { InitStateResult, OwnerKey } from '../../workspace/index.ts';
import { provenCa } from '../curator/follow-ca.ts';
import { readWorkspaceCa, type CaFile, type WorkspaceCa } from '../curator/known-ca.ts';
import { ClusterError } from '../errors.ts';
import { verifyInitResult } from './init-result.ts';

const MAX_ENDPOINTS = 16;
/** Time limit for all curators together. */
const TIMEOUT_MS = 10_000;

/** The init whose result is requested, and the keys that it must match. */
export interface RecoverOptions {
  /** "host:port" of possible curators; at most 16 are called. */
  readonly endpoints: readonly string[];
  readonly initId: string;
  readonly clusterId: string;
  readonly ownerKey: OwnerKey;
  readonly adminKeyPem: Secret<string>;
  /** What the workspace remembers about the CA of the cluster. */
  readonly caFile: CaFile;
}

/**
 * The result of an init, and the CA of the cluster that an owner has signed since; the CA is undefined if it was never
 * replaced.
 */
export interface RecoveredResult {
  readonly result: InitStateResult;
  readonly ca: WorkspaceCa | undefined;
}

/**
 * Fetches the result of a finished init for a workspace that lost it: every curator returns the result to a caller who
 * proves the owner key. The owner's signature of the acknowledgement identifies the cluster, and the curator must be a
 * node of that cluster. undefined when no curator has a result: then there is no cluster, or the init service of the
 * machine still runs.
 */
export async function recoverResult(
  context: Pick<CommandContext, 'host' | 'ports' | 'signal'>,
  options: RecoverOptions,
): Promise<RecoveredResult | undefined> {
  const { clock } = context.ports;
  const { keyPem } = options.ownerKey;
  const certPem = await selfSignedCertificate({
    keyPem: keyPem.reveal(),
    commonName: 'owner',
    nowMs: clock.nowMs(),
  });
  const limit = {
    what: 'requesting the init result from curators',
    ms: TIMEOUT_MS,
    clock,
    signal: context.signal,
  };
  try {
    return await withTimeout(limit, async (signal) => {
      using calls = childSignal(signal);
      const { promise: first, resolve } = Promise.withResolvers<RecoveredResult>();
      // Calls all curators in parallel, because the first one may not respond.
      const requests = options.endpoints.slice(0, MAX_ENDPOINTS).map(async (endpoint) => {
        const found = await requestResult(context, options, { endpoint, certPem, signal: calls.signal });
        if (found !== undefined) resolve(found);
      });
      try {
        return await Promise.race([first, Promise.all(requests).then(() => undefined)]);
      } finally {
        calls.abort(new Error('result received'));
      }
    });
  } catch (error) {
    context.signal.throwIfAborted();
    context.host.say('init-not-recovered', 'No curator returned the init result in time', {
      error: String(error),
    });
    return undefined;
  }
}

async function requestResult(
  { host, ports }: Pick<CommandContext, 'host' | 'ports'>,
  options: RecoverOptions,
  at: { readonly endpoint: string; readonly certPem: string; readonly signal: AbortSignal },
): Promise<RecoveredResult | undefined> {
  const { endpoint, certPem, signal } = at;
  let certificate: X509Certificate | undefined;
  using channel = new RpcChannel({
    endpoint,
    upgrade: tlsClientUpgrade({
      clock: ports.clock,
      identity: { certPem, keyPem: options.ownerKey.keyPem },
      // The certificate is verified with the response below; the request contains no secret.
      accept: (shown: X509Certificate) => (certificate = shown),
    }),
  });
  try {
    const request = { initId: options.initId };
    const response = await createClient(Curator, channel).getInitResult(request, {
      signal,
      timeoutMs: TIMEOUT_MS,
    });
    // The init is not acknowledged, so the machine itself still serves the result.
    if (response.ownershipSignature.length === 0) return undefined;
    const result = verifyResponse(response, options);
    const answer = await createClient(OperatorApi, channel)
      .getClusterCa({}, { signal, timeoutMs: TIMEOUT_MS })
      .catch(() => undefined);
    const ca = await verifySender(ports, { ...options, result }, { answer, certificate });
    signal.throwIfAborted();
    return { result, ca };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof ClusterError) host.warn('init-recovery-refused', `${endpoint}: ${error.message}`);
    return undefined; // unreachable, or not a curator of this cluster: the init service of the machine is tried next
  }
}

function verifyResponse(
  response: GetInitResultResponse,
  { clusterId, ownerKey, adminKeyPem }: RecoverOptions,
): InitStateResult {
  const parsed = fromBinary(InitResultSchema, response.result);
  const result = verifyInitResult(parsed, { clusterId, ownerKeyPem: ownerKey.keyPem, adminKeyPem });
  const statement = ownershipStatement({ ...result, epoch: BigInt(result.epoch) });
  const ownPubKey = createPublicKey(ownerKey.keyPem.reveal());
  if (!verify(undefined, statement, ownPubKey, response.ownershipSignature))
    throw invalid('not signed by the owner key of this workspace');
  return result;
}

/**
 * Verifies that the sender is a curator of the cluster: by the new CA that an owner has signed, else by the newest CA
 * that the workspace has adopted, else by the CA of the result. Returns the new CA that an owner has signed; undefined
 * if there is none.
 * @throws ClusterError `cluster-result-invalid`, `cluster-ca-file-invalid`
 */
async function verifySender(
  { files, clock }: Pick<CommandContext['ports'], 'files' | 'clock'>,
  { caFile, clusterId, ownerKey, result }: RecoverOptions & { readonly result: InitStateResult },
  { answer, certificate }: { readonly answer: GetClusterCaResponse | undefined } & Shown,
): Promise<WorkspaceCa | undefined> {
  if (certificate === undefined) throw invalid('no certificate');
  const ca = await readWorkspaceCa(files, caFile, { trustedPem: result.clusterCaPem, generation: 1 });
  const ownPubKey = ed25519PubKeyFrom(ownerKey.keyPem);
  const trust = { ca, clusterId, epoch: Number(result.epoch), ownerKeys: ownPubKey ? [ownPubKey] : [] };
  const proven = answer && provenCa(trust, { answer, certificate }, clock.nowMs());
  if (proven !== undefined) return proven;
  try {
    const nowMs = (): number => clock.nowMs();
    verifyCuratorCertificate(certificate, { caPem: ca.trustedPem, clusterId, nowMs });
  } catch (cause) {
    throw invalid('the sender is no curator of the cluster', cause);
  }
  return undefined;
}

interface Shown {
  readonly certificate: X509Certificate | undefined;
}

function invalid(why: string, cause?: unknown): ClusterError {
  return new ClusterError('cluster-result-invalid', `recovering the init result: ${why}`, { cause });
}
