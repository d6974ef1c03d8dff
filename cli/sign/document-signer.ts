import {
  DOCUMENT_LIFETIMES_MS,
  signDocument,
  type DocumentBodies,
  type DocumentKind,
} from '../../internal/ownerdocument/index.ts';
import { RpcError } from '../../internal/rpc/index.ts';
import type { CommandContext } from '../app/command.ts';
import { callCurator, readCaller, saveKnownCurators, type Caller } from '../cluster/index.ts';
import { saveRemovedMachines } from './known-machines.ts';
import { contentOf, sha256Of, type Proposal } from './proposal.ts';
import { saveSeenDocuments } from './seen-documents.ts';
import { SignedRecords, type KnownRecords } from './signed-records.ts';

/**
 * Opens a signer for the calling owner; undefined if the caller is not an owner, or the curator too old for owner documents.
 * The documents on record are verified before anything is derived from them.
 */
export async function openSigner(context: CommandContext): Promise<DocumentSigner | undefined> {
  const member = await readCaller(context);
  if (!member.isOwner) return undefined;
  const known = await readRecords(context, member);
  if (known === undefined) return undefined;
  const signer = new DocumentSigner(member, known, context.ports.clock.nowMs());
  if (!signer.isOwner) return undefined;
  await saveSeenDocuments(context.ports.files, member, signer);
  return signer;
}

/** The documents on record, not verified; undefined from a curator that is too old for owner documents. Saves the epoch, and which machines are refused. */
export async function readRecords(
  context: CommandContext,
  member: Caller,
): Promise<KnownRecords | undefined> {
  try {
    const known = await callCurator(context, ({ operatorApi }) => operatorApi.listDocuments({}));
    const { files } = context.ports;
    await saveKnownCurators(files, member.curatorsPath, { epoch: known.epoch, directory: [] });
    await saveRemovedMachines(files, member, known.removed);
    return known;
  } catch (error) {
    if (error instanceof RpcError && error.code === 'rpc-not-served') return undefined;
    throw error;
  }
}

/** Signs the settings that joining machines get; none where the curator is too old to return them. */
export function settingsFor(signer: DocumentSigner): Uint8Array[] {
  if (signer.settings.length === 0) return [];
  return [signer.sign('settings', { settingsSha256: sha256Of(signer.settings) })];
}

/** Signs documents with the key of the calling owner and the next serial. */
export class DocumentSigner extends SignedRecords {
  /** Raw Ed25519, base64. */
  readonly ownKey: string;
  readonly #member: Caller;

  constructor(member: Caller, known: KnownRecords, nowMs: number) {
    // The key of the first owner does not come from the curator.
    super(member, known, { first: [member.vouchers[0]?.by ?? member.pubKey], nowMs });
    this.ownKey = Buffer.from(member.pubKey).toString('base64');
    this.#member = member;
  }

  /** Whether the caller is one of the current owners. */
  get isOwner(): boolean {
    return this.owners.includes(this.ownKey);
  }

  /**
   * @param endsMs end of validity; given only when a document is signed again, which must not make it valid
   * for longer
   */
  sign<K extends DocumentKind>(kind: K, body: DocumentBodies[K], endsMs?: number): Uint8Array {
    const { clusterId, epoch, nowMs: issuedMs } = this;
    const serial = this.nextSerial(kind, body);
    this.count(kind, body, { serial, epoch });
    const content = {
      ...{ kind, clusterId, epoch, serial, issuedMs, body },
      endsMs: endsMs ?? issuedMs + DOCUMENT_LIFETIMES_MS[kind],
    };
    return signDocument(content, this.#member.keyPem);
  }

  signAll(proposals: readonly Proposal[]): Promise<Uint8Array[]> {
    const contents = proposals.map((proposal) => contentOf(proposal));
    return Promise.resolve(contents.map(({ kind, body }) => this.sign<DocumentKind>(kind, body)));
  }
}
