import {
  MAX_VOUCHERS,
  ownershipStatement,
  type OwnerVoucher,
  rawFromEd25519Spki,
  signEd25519,
  voucherStatement,
} from '../../internal/crypto/index.ts';
import { fingerprintOfKey, pubKeyDerOf } from '../../internal/pki/index.ts';
import { RpcError } from '../../internal/rpc/index.ts';
import type { CommandContext } from '../app/command.ts';
import { readCaller, type Caller, callCurator, newMutation } from '../cluster/index.ts';

/** Whether the records of the cluster list the caller as an owner. The grant of the caller may be outdated. */
export async function isOwnerOnRecord(context: CommandContext, member: Caller): Promise<boolean> {
  const fingerprint = fingerprintOfKey(pubKeyDerOf(member.keyPem));
  const { operators } = await callCurator(context, ({ operatorApi }) => operatorApi.listOperators({}));
  return operators.find((each) => each.fingerprint === fingerprint)?.role === 'owner';
}

/** Signs the cluster ownership with the key of the caller. Joining machines verify it from then on. */
export async function signOwnership(context: CommandContext): Promise<void> {
  const mutation = newMutation();
  await callCurator(context, async ({ curator, operatorApi }) => {
    const { epoch } = await curator.getClusterInfo({});
    const member = await readCaller(context);
    const { clusterId, clusterCaPem, keyPem } = member;
    const signature = signEd25519(keyPem, ownershipStatement({ clusterId, clusterCaPem, epoch }));
    const signed = { ownerPublicKey: member.pubKey, epoch, signature, mutation };
    return operatorApi.putOwnership(signed);
  });
}

/**
 * Vouchers with which machines that know only older owners accept the key of a new owner: those of the caller, and one
 * that the caller signs.
 */
export function vouchersFor(member: Caller, pubKeyDer: Uint8Array): readonly OwnerVoucher[] {
  const { clusterId, keyPem, vouchers } = member;
  const ownerPubKey = rawFromEd25519Spki(pubKeyDer);
  const signature = signEd25519(keyPem, voucherStatement({ clusterId, ownerPubKey }));
  return [...vouchers, { by: member.pubKey, signature }].slice(-MAX_VOUCHERS);
}

/**
 * The owner keys (base64) for the provisioning file of a machine: the key of the caller, whose orders the machine is to
 * obey, and the key of the owner who signed the cluster ownership. Only the cluster knows the second key. If the
 * cluster is not asked, because the caller is the first owner, only the caller's key is returned.
 */
export async function ownerKeysToProvision(
  context: CommandContext,
  options: { readonly asksCluster: boolean },
): Promise<readonly string[]> {
  const member = await readCaller(context);
  const own = Buffer.from(member.pubKey).toString('base64');
  if (member.kind === 'owner' && !options.asksCluster) return [own];
  const signer = Buffer.from(await signerNow(context)).toString('base64');
  return signer === '' || signer === own ? [own] : [own, signer];
}

async function signerNow(context: CommandContext): Promise<Uint8Array> {
  try {
    const { ownerPublicKey } = await callCurator(context, ({ operatorApi }) => operatorApi.getOwnership({}));
    return ownerPublicKey;
  } catch (error) {
    if (!(error instanceof RpcError && error.code === 'rpc-not-served')) throw error;
    return new Uint8Array(); // a curator too old for this call: only the first owner can have signed
  }
}
