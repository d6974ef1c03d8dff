import { serversCasIn } from '../../../internal/keyset/index.ts';
import { OwnerDocumentError } from '../../../internal/ownerdocument/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { callCurator } from '../curator/call-curator.ts';
import { readCaller, type Caller } from '../curator/caller.ts';
import type { WorkspaceCa } from '../curator/known-ca.ts';
import { verifySignedGeneration, type SignedGeneration } from '../curator/signed-generation.ts';
import { fetchKeysView } from '../status/keys-view.ts';
import { ClusterError } from '../errors.ts';

/** From these phases of a rotation on, every API server has a certificate of the next CA. */
const ALL_SERVERS_CHANGED = ['refresh', 'retire', 'done'];

/**
 * The CAs of the workspace with those of API servers that a new kubeconfig is to trust. A rotation of the shared keys
 * replaces the CAs of API servers. The workspace adopts new CAs only if an owner has signed them, and never returns to
 * a replaced CA. An operator whose grant names no owner keeps the CA of the grant, which works until the next rotation.
 * @param told what a curator returned: untrusted; empty from curators of earlier versions
 * @returns undefined if the workspace keeps the CAs that it trusts
 * @throws ClusterError `cluster-result-invalid`; errors of `callCurator`
 */
export async function followServersCas(
  context: CommandContext,
  { known, told }: { readonly known: string; readonly told: string },
): Promise<(WorkspaceCa & { readonly kubernetesCaPem: string }) | undefined> {
  if (told.trim() === '' || told.trim() === known.trim()) return undefined;
  const { ownerDocuments } = await callCurator(context, ({ operatorApi }) => operatorApi.getClusterCa({}));
  const keys = await callCurator(context, fetchKeysView);
  // Read after the calls, because these calls may have adopted a new CA of the cluster.
  const caller = await readCaller(context);
  if (caller.ownerKeys.length === 0) return undefined;
  const signed = signedGeneration(caller, ownerDocuments, context.ports.clock.nowMs());
  const isNextOnly = keys !== undefined && ALL_SERVERS_CHANGED.includes(keys.phase);
  const kubernetesCaPem = serversCasIn(signed.keys, told, { known, isNextOnly });
  if (kubernetesCaPem === undefined) throw refused('an owner signed another CA');
  return { ...caller.ca, floors: signed.floors, kubernetesCaPem };
}

function signedGeneration(caller: Caller, documents: readonly Uint8Array[], nowMs: number): SignedGeneration {
  try {
    return verifySignedGeneration(caller, documents, nowMs);
  } catch (error) {
    throw error instanceof OwnerDocumentError ? refused(error.message, error) : error;
  }
}

function refused(why: string, cause?: unknown): ClusterError {
  return new ClusterError('cluster-result-invalid', `verifying the CA of API servers: ${why}`, { cause });
}
