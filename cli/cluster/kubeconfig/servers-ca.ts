import { serversCasIn } from '../../../internal/keyset/index.ts';
import { proofFromProvisioning } from '../../../internal/ownerdocument/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { callCurator } from '../curator/call-curator.ts';
import type { Caller } from '../curator/caller.ts';
import { fetchKeysView } from '../status/keys-view.ts';
import { ClusterError } from '../errors.ts';

/** From these phases of a rotation on, every API server has a certificate of the next CA. */
const ALL_SERVERS_CHANGED = ['refresh', 'retire', 'done'];

/**
 * The CAs of API servers that a new kubeconfig is to trust, PEM. A rotation of the shared keys replaces them. The CLI of an owner takes new
 * ones only if an owner has signed them. Operators know no owners: they keep the CA of their grant, which works until the next rotation,
 * and get the new one with a new grant.
 * @param told what a curator returned: untrusted; empty from curators of earlier versions
 * @throws ClusterError `cluster-result-invalid`; errors of `callCurator`
 */
export async function verifiedServersCas(
  context: CommandContext,
  caller: Caller,
  { known, told }: { readonly known: string; readonly told: string },
): Promise<string> {
  if (told.trim() === '' || told.trim() === known.trim()) return known;
  const firstOwner = caller.vouchers[0]?.by ?? (caller.kind === 'owner' ? caller.pubKey : undefined);
  if (firstOwner === undefined) return known;
  const { documents, epoch } = await callCurator(context, ({ operatorApi }) => operatorApi.listDocuments({}));
  const proof = proofFromProvisioning('keys', documents, {
    ownerKeys: [firstOwner],
    clusterId: caller.clusterId,
    epoch: Math.max(1, Number(epoch)),
    nowMs: context.ports.clock.nowMs(),
  });
  const keys = await callCurator(context, fetchKeysView);
  const isNextOnly = keys !== undefined && ALL_SERVERS_CHANGED.includes(keys.phase);
  const cas = proof.kind === 'signed' ? serversCasIn(proof.document.body, told, isNextOnly) : undefined;
  if (cas !== undefined) return cas;
  const why = proof.kind === 'signed' ? 'an owner signed another one' : proof.why;
  throw new ClusterError('cluster-result-invalid', `verifying the CA of API servers: ${why}`);
}
