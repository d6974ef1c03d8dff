import {
  floorOf,
  OwnerDocumentError,
  parseDocument,
  subjectOf,
  verifyDocument,
  type DocumentBodies,
  type DocumentKind,
} from '../../internal/ownerdocument/index.ts';
import { canonicalJson } from '../../internal/crypto/index.ts';
import type { CommandContext } from '../app/command.ts';
import { AppError } from '../app/errors.ts';
import { readCaller, type Caller } from '../cluster/index.ts';
import { checkProposal } from './check-proposal.ts';
import { openSigner, readRecords } from './document-signer.ts';
import { SignError } from './errors.ts';
import { contentOf, type Proposal } from './proposal.ts';
import { encodeRequest, MAX_REQUEST_BYTES, parseSignedFile } from './request-file.ts';
import { SignedRecords, subjectKeyOf, type KnownRecords } from './signed-records.ts';

/** Gets the documents that a change needs. They are derived from documents that owners have signed. */
export type ChangeSigner = SignedRecords & {
  /**
   * The signed documents. An owner signs them; an operator takes them from the file of an owner, or writes a request instead.
   * @throws OwnerDocumentError `owner-document-required` when a request was written; SignError
   */
  signAll(proposals: readonly Proposal[]): Promise<Uint8Array[]>;
};

/** Like `openSigner`, and for an operator without an owner key the signer that the flags of the command select. */
export async function openChangeSigner(context: CommandContext): Promise<ChangeSigner | undefined> {
  const { ownerSignature, ports } = context;
  if (ownerSignature === undefined) return openSigner(context);
  const member = await readCaller(context);
  if (member.isOwner)
    throw new AppError('app-usage', 'this workspace has an owner key: it signs the change itself', {
      fix: 'Run the command without --request-signature and --signed.',
    });
  const known = await readRecords(context, member);
  if (known === undefined) return undefined;
  const nowMs = ports.clock.nowMs();
  if (ownerSignature.kind === 'request')
    return new RequestWriter(member, known, { nowMs, path: ownerSignature.path, files: ports.files });
  const bytes = await ports.files.read(ownerSignature.path, MAX_REQUEST_BYTES);
  if (bytes === undefined) throw new AppError('app-usage', `file ${ownerSignature.path} not found`);
  return new SignedFileReader(member, known, { nowMs, signed: parseSignedFile(bytes).documents });
}

/** No documents, for a change that needs none. @throws AppError `app-usage` if the command is only to write a request */
export function nothingToSign({ ownerSignature }: Pick<CommandContext, 'ownerSignature'>): [] {
  if (ownerSignature?.kind === 'request')
    throw new AppError('app-usage', 'this change needs no signature of an owner', {
      fix: 'Run the command without --request-signature.',
    });
  return [];
}

/** Writes what an owner has to sign to a new file. The change is not made. */
class RequestWriter extends SignedRecords {
  readonly #member: Caller;
  readonly #to: { readonly path: string; readonly files: CommandContext['ports']['files'] };

  constructor(
    member: Caller,
    known: KnownRecords,
    options: {
      readonly nowMs: number;
      readonly path: string;
      readonly files: CommandContext['ports']['files'];
    },
  ) {
    super(member, known, { first: firstOwnersOf(member), nowMs: options.nowMs });
    this.#member = member;
    this.#to = options;
  }

  async signAll(proposals: readonly Proposal[]): Promise<never> {
    const { path, files } = this.#to;
    if (proposals.length === 0) nothingToSign({ ownerSignature: { kind: 'request', path } });
    for (const proposal of proposals) checkProposal(this, proposal);
    const { clusterId, epoch, nowMs: requestedMs } = this;
    const documents = this.#basesOf(proposals);
    const request = { clusterId, epoch, requestedMs, proposals, documents };
    await createNew(files, path, encodeRequest(request, this.#member.keyPem));
    throw new OwnerDocumentError(
      'owner-document-required',
      `nothing was changed: the request for the signature of an owner is in ${path}`,
      {
        fix: `Let an owner run \`cluster sign ${path}\`. Then run the same command with \`--signed ${path}.signed\` instead of --request-signature.`,
        details: { request: path },
      },
    );
  }

  /** The documents that the new ones follow: all sets of owners, those that grants and checks name, and the one before each new one. */
  #basesOf(proposals: readonly Proposal[]): readonly Uint8Array[] {
    const followed = new Set(proposals.map((proposal) => subjectKeyOf(contentOf(proposal))));
    return this.everSigned
      .filter(
        ({ document }) =>
          ['owners', 'policy', 'operators'].includes(document.kind) || followed.has(subjectKeyOf(document)),
      )
      .map(({ bytes }) => bytes);
  }
}

/** Takes the documents of a change from a file that an owner has signed. */
class SignedFileReader extends SignedRecords {
  readonly #signed: readonly Uint8Array[];

  constructor(
    member: Caller,
    known: KnownRecords,
    { nowMs, signed }: { readonly nowMs: number; readonly signed: readonly Uint8Array[] },
  ) {
    super(member, known, { first: firstOwnersOf(member), nowMs });
    this.#signed = signed;
  }

  async signAll(proposals: readonly Proposal[]): Promise<Uint8Array[]> {
    return Promise.resolve(proposals.map((proposal) => this.#find(contentOf(proposal))));
  }

  /** @throws SignError `sign-signed-other`, OwnerDocumentError if the cluster would refuse the document */
  #find({ kind, body }: ReturnType<typeof contentOf>): Uint8Array {
    const found = this.#signed.find((bytes) => {
      const document = parseDocument(bytes);
      return document.kind === kind && saysOf(document.body) === saysOf(body);
    });
    if (found === undefined)
      throw new SignError('sign-signed-other', `using the signed file: no ${kind} document for this change`);
    const before = this.newest(kind, subjectOf({ body }));
    verifyDocument(found, {
      ...{ kind, clusterId: this.clusterId, epoch: this.epoch, nowMs: this.nowMs },
      owners: this.owners.map((key) => new Uint8Array(Buffer.from(key, 'base64'))),
      floor: before && floorOf(before),
    });
    return found;
  }
}

/** Creates a file. @throws SignError `sign-file-exists` */
export async function createNew(
  files: CommandContext['ports']['files'],
  path: string,
  text: string,
): Promise<void> {
  if (!(await files.createExclusive(path, text))) throw new SignError('sign-file-exists', `${path} exists`);
}

/** The owners of the grant: the ones who were owners when this operator was added, and the first one. */
function firstOwnersOf({ ownerKeys }: Caller): readonly [Uint8Array, ...Uint8Array[]] {
  const [first, ...others] = ownerKeys;
  if (first === undefined)
    throw new OwnerDocumentError(
      'owner-document-signer-unknown',
      'the grant of this workspace names no owner',
      {
        fix: 'Ask an owner for a new grant: `cluster operator add`, then `cluster operator accept`.',
      },
    );
  return [first, ...others];
}

/** What a body says, without the lowest serials of a grant: the owner's program derives them. */
function saysOf(body: DocumentBodies[DocumentKind]): string {
  return canonicalJson('floors' in body ? { ...body, floors: undefined } : body);
}
