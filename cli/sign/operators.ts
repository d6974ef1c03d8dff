import { ownerPubKeyFromRaw } from '../../internal/attestation/ownerkey/index.ts';
import {
  OwnerDocumentError,
  type DocumentBodies,
  type DocumentKind,
} from '../../internal/ownerdocument/index.ts';
import { fingerprintOfKey, spkiDerOf } from '../../internal/pki/index.ts';
import type { Operator } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../app/command.ts';
import { callCurator } from '../cluster/index.ts';
import { openChangeSigner } from './change-signer.ts';
import { DocumentSigner } from './document-signer.ts';

type SignedOperator = DocumentBodies['operators']['operators'][number];

/** An operator that is added, replaced or removed. */
export type OperatorChange =
  | { readonly kind: 'put'; readonly operator: SignedOperator; readonly ownerKey: string | undefined }
  | { readonly kind: 'remove'; readonly name: string };

/**
 * Signs the list of operators after a change, and the list of owners if it changes too. The new list is
 * derived from the last signed one, never from the records: otherwise an owner would sign an operator that an
 * attacker has added to etcd.
 * @throws OwnerDocumentError `owner-document-required` if none was signed yet
 */
export async function signedOperators(
  context: CommandContext,
  change: OperatorChange,
): Promise<Uint8Array[]> {
  const signer = await openChangeSigner(context);
  if (signer === undefined) return [];
  const before = signer.newest('operators')?.body.operators;
  if (before === undefined)
    throw new OwnerDocumentError(
      'owner-document-required',
      'changing the operators: the current operators are not signed; check `cluster operator ls`, then run `cluster sign`',
    );
  const name = change.kind === 'put' ? change.operator.name : change.name;
  const gone = before.find((each) => each.name === name);
  const after = [
    ...before.filter((each) => each.name !== name),
    ...(change.kind === 'put' ? [change.operator] : []),
  ];
  if (after.length === 0) return []; // empty only if the last owner would be removed, which the curator refuses
  if (!(signer instanceof DocumentSigner))
    return signer.signAll([{ kind: 'operators', body: { operators: after } }]);
  const owners = ownersAfter(signer, gone, change);
  const nowMs = context.ports.clock.nowMs();
  return [
    ...owners,
    signer.sign('operators', { operators: after }),
    ...(owners.length === 0 || gone === undefined ? [] : signedAgain(signer, gone, nowMs)),
  ];
}

/** The operators that the cluster has on record, in the form of the signed list. */
export async function operatorsOnRecord(context: CommandContext): Promise<readonly SignedOperator[]> {
  const { operators } = await callCurator(context, ({ operatorApi }) => operatorApi.listOperators({}));
  return operators.flatMap((each) => signedFrom(each) ?? []);
}

function signedFrom({ name, fingerprint, role }: Operator): SignedOperator | undefined {
  if (role !== 'viewer' && role !== 'operator' && role !== 'owner') return undefined;
  return { name, fingerprint, role };
}

/** The signed list of owners, if the change adds, replaces or removes an owner's key. */
function ownersAfter(
  signer: DocumentSigner,
  gone: SignedOperator | undefined,
  change: OperatorChange,
): Uint8Array[] {
  const kept = signer.owners.filter((key) => gone === undefined || fingerprintOf(key) !== gone.fingerprint);
  const added = change.kind === 'put' ? change.ownerKey : undefined;
  const keys = added === undefined ? kept : [...new Set([...kept, added])];
  const isSame = keys.length === signer.owners.length && keys.every((key) => signer.owners.includes(key));
  // If the caller removes their own key, this list would make the other documents of the same call invalid, so
  // it is not sent.
  if (isSame || !keys.includes(signer.ownKey)) return [];
  return [signer.sign('owners', { keys })];
}

/**
 * The documents that a removed owner has signed become invalid, so the caller signs them again, with the same
 * end of validity.
 */
function signedAgain(signer: DocumentSigner, gone: SignedOperator, nowMs: number): Uint8Array[] {
  return signer.documents
    .filter(({ signer: by }) => fingerprintOf(Buffer.from(by).toString('base64')) === gone.fingerprint)
    .filter(({ kind, endsMs }) => kind !== 'owners' && kind !== 'operators' && endsMs > nowMs)
    .map(({ kind, body, endsMs }) => signer.sign<DocumentKind>(kind, body, endsMs));
}

function fingerprintOf(keyBase64: string): string {
  return fingerprintOfKey(spkiDerOf(ownerPubKeyFromRaw(Buffer.from(keyBase64, 'base64'))));
}
