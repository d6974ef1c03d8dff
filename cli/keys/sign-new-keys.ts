import type { CommandContext } from '../app/command.ts';
import { callCurator, newMutation, type NewKeysView } from '../cluster/index.ts';
import { openSigner, requireKnownMaker } from '../sign/index.ts';

/**
 * Signs new keys that wait for an owner, and stores the signature. Returns false if the caller is not an owner.
 * @throws SignError `sign-new-keys-untrusted`
 */
export async function signNewKeys(context: CommandContext, keys: NewKeysView): Promise<boolean> {
  const signer = await openSigner(context);
  if (signer === undefined) return false;
  await requireKnownMaker(context, signer, keys);
  const documents = [signer.sign('keys', keys.signed)];
  const mutation = newMutation();
  await callCurator(context, ({ operatorApi }) => operatorApi.putDocuments({ documents, mutation }));
  return true;
}
