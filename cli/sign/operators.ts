import { ownerPubKeyFromRaw } from '../../internal/attestation/ownerkey/index.ts';
import {
  OwnerDocumentError,
  type DocumentBodies,
  type DocumentKind,
} from '../../internal/ownerdocument/index.ts';
import { fingerprintOfKey, spkiDerOf } from '../../internal/pki/index.ts';
import { OperatorApi, type Operator } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../app/command.ts';
import { callCurator } from '../cluster/index.ts';
import { openSigner, type DocumentSigner } from './document-signer.ts';

type SignedOperator = DocumentBodies['operators']['operators'][number];

/** A change of who administers. */
export type OperatorChange =
  | { readonly kind: 'put'; readonly operator: SignedOperator; readonly ownerKey: string | undefined }
  | { readonly kind: 'remove'; readonly name: string };

/**
 * The operators after a change, and the owners where those change. They are made from what an owner signed before and never
 * from the records: whoever could write a record there would be signed with the next change.
 * @throws OwnerDocumentError `owner-document-required` where nothing was signed yet: `cluster sign` shows the records first
 */
export async function signedOperators(
  context: CommandContext,
  change: OperatorChange,
): Promise<Uint8Array[]> {
  const signer = await openSigner(context);
  if (signer === undefined) return [];
  const before = signer.newest('operators')?.body.operators;
  if (before === undefined)
    throw new OwnerDocumentError(
      'owner-document-required',
      'changing the operators: nobody has signed those that there are; look at `cluster operator ls`, then run `cluster sign`',
    );
  const name = change.kind === 'put' ? change.operator.name : change.name;
  const gone = before.find((each) => each.name === name);
  const after = [
    ...before.filter((each) => each.name !== name),
    ...(change.kind === 'put' ? [change.operator] : []),
  ];
  if (after.length === 0) return []; // the curator keeps the last owner
  const owners = ownersAfter(signer, gone, change);
  const nowMs = context.ports.clock.nowMs();
  return [
    ...owners,
    signer.sign('operators', { operators: after }),
    ...(owners.length === 0 || gone === undefined ? [] : signedAgain(signer, gone, nowMs)),
  ];
}

export async function operatorsOnRecord(context: CommandContext): Promise<readonly SignedOperator[]> {
  const { operators } = await callCurator(context, (_, call, of) => of(OperatorApi).listOperators({}, call));
  return operators.flatMap((each) => signedFrom(each) ?? []);
}

function signedFrom({ name, fingerprint, role }: Operator): SignedOperator | undefined {
  if (role !== 'viewer' && role !== 'operator' && role !== 'owner') return undefined;
  return { name, fingerprint, role };
}

/** The set of owners, if this change is about one: a new key takes the place of the old one. */
function ownersAfter(
  signer: DocumentSigner,
  gone: SignedOperator | undefined,
  change: OperatorChange,
): Uint8Array[] {
  const kept = signer.owners.filter((key) => gone === undefined || fingerprintOf(key) !== gone.fingerprint);
  const added = change.kind === 'put' ? change.ownerKey : undefined;
  const keys = added === undefined ? kept : [...new Set([...kept, added])];
  const isSame = keys.length === signer.owners.length && keys.every((key) => signer.owners.includes(key));
  // A set without whoever signs it could sign nothing else in this call.
  if (isSame || !keys.includes(signer.ownKey)) return [];
  return [signer.sign('owners', { keys })];
}

/** What an owner who goes had signed no longer counts: the owner who removes signs it again, with the same end. */
function signedAgain(signer: DocumentSigner, gone: SignedOperator, nowMs: number): Uint8Array[] {
  return signer.documents
    .filter(({ signer: by }) => fingerprintOf(Buffer.from(by).toString('base64')) === gone.fingerprint)
    .filter(({ kind, endsMs }) => kind !== 'owners' && kind !== 'operators' && endsMs > nowMs)
    .map(({ kind, body, endsMs }) => signer.sign<DocumentKind>(kind, body, endsMs));
}

function fingerprintOf(keyBase64: string): string {
  return fingerprintOfKey(spkiDerOf(ownerPubKeyFromRaw(Buffer.from(keyBase64, 'base64'))));
}
