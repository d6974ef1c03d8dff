import { isSignedByEd25519Key } from '../../internal/crypto/index.ts';
import { newKeysStatement } from '../../internal/keyset/index.ts';
import { fingerprintOfKey, nodeIdOf } from '../../internal/pki/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { CommandContext } from '../app/command.ts';
import { readCaller, type NewKeysView } from '../cluster/index.ts';
import type { DocumentSigner } from './document-signer.ts';
import { SignError } from './errors.ts';
import { readKnownNodeIds } from './known-nodes.ts';

/**
 * Requires that a control plane of the cluster created these keys: its node key signed them, and an owner granted this node key its
 * role, or this workspace has seen the node. The curator that shows the keys could have replaced them.
 * @throws SignError `sign-new-keys-untrusted`
 */
export async function requireKnownMaker(
  context: CommandContext,
  signer: DocumentSigner,
  { nodeId, publicKey, signature, signed }: NewKeysView,
): Promise<void> {
  const key = Buffer.from(publicKey, 'base64');
  const fail = (why: string): never => {
    const doing = `signing the new keys of generation ${signed.generation} by ${printable(nodeId)}`;
    throw new SignError('sign-new-keys-untrusted', `${doing}: ${why}`);
  };
  const { clusterId } = await readCaller(context);
  const statement = newKeysStatement(clusterId, signed);
  if (!isSignedByEd25519Key(key, statement, Buffer.from(signature, 'base64')))
    fail('the signature of the node is missing or does not match the keys');
  if (nodeIdOf(key) !== nodeId) fail('they are signed with the key of another node');
  if (signer.removed.some((machine) => machine.nodeId === nodeId)) fail('the node was removed');
  const grant = signer.newest('grant', nodeId)?.body;
  if (grant === undefined) {
    if (!(await readKnownNodeIds(context)).has(nodeId)) fail('this workspace has not seen this node');
  } else if (grant.fingerprint !== fingerprintOfKey(key) || !grant.roles.includes('ConsensusMember'))
    fail('an owner has not granted this node the role of a control plane');
}
