import { ed25519SpkiFromRaw } from '../../internal/crypto/index.ts';
import { OwnerDocumentError } from '../../internal/ownerdocument/index.ts';
import { fingerprintOfKey } from '../../internal/pki/index.ts';
import type { CommandContext } from '../app/command.ts';
import { AppError } from '../app/errors.ts';
import { readCaller, readSeenEpoch, type Caller } from '../cluster/index.ts';
import { createNew } from './change-signer.ts';
import { checkProposal } from './check-proposal.ts';
import { describeProposal } from './describe-proposal.ts';
import { DocumentSigner } from './document-signer.ts';
import { SignError } from './errors.ts';
import { grantFor } from './grants.ts';
import { readKnownNodes } from './known-nodes.ts';
import type { Proposal } from './proposal.ts';
import { whyOutdated } from './seen-documents.ts';
import { encodeSignedFile, MAX_REQUEST_BYTES, parseRequest, type SignatureRequest } from './request-file.ts';

/** Arguments of `cluster sign FILE`. */
export interface SignRequestOptions {
  readonly yes: boolean;
  /** Default: the path of the request and ".signed". */
  readonly out: string | undefined;
}

/**
 * `cluster sign FILE`: an owner signs what an operator asks for in a file. Needs no connection to the cluster. Everything in the
 * file is verified again, and the owner is shown all that the new documents say.
 * @throws SignError, OwnerDocumentError, AppError `app-usage`
 */
export async function runSignRequest(
  context: CommandContext,
  path: string,
  { yes, out = `${path}.signed` }: SignRequestOptions,
): Promise<void> {
  const { files } = context.ports;
  const bytes = await files.read(path, MAX_REQUEST_BYTES);
  if (bytes === undefined) throw new AppError('app-usage', `file ${path} not found`);
  const request = parseRequest(bytes);
  const member = await readCaller(context);
  const signer = await verifiedSigner(context, member, request);
  const requester = requireSignedOperator(signer, request);
  const known = await readKnownNodes(context);
  for (const proposal of request.proposals) {
    checkProposal(signer, proposal);
    requireKnownMachine(known, proposal);
  }
  const lines = [
    `Request of the operator ${requester}, ${new Date(request.requestedMs).toISOString()}:`,
    ...request.proposals.flatMap((proposal) => describeProposal(signer, proposal, known)),
  ];
  context.host.say('sign-request', lines.join('\n'), { proposals: request.proposals });
  if (!yes && !(await context.host.confirm('Sign this?', false)))
    throw new OwnerDocumentError(
      'owner-document-required',
      'signing the request: not confirmed; use --yes in a script',
    );
  const documents = await signer.signAll(request.proposals.map((each) => withOwnFloors(signer, each)));
  await createNew(files, out, encodeSignedFile({ clusterId: signer.clusterId, documents }));
  context.host.result({ documents: documents.length, out }, () =>
    [
      `Signed. The documents are in ${out}: send this file to ${requester}.`,
      'It contains no secret. Any operator can submit it until the documents expire or newer ones exist.',
    ].join('\n'),
  );
}

/** A signer for the documents that the request follows, all of which have to be valid. */
async function verifiedSigner(
  { ports }: CommandContext,
  member: Caller,
  { clusterId, epoch, documents }: SignatureRequest,
): Promise<DocumentSigner> {
  const fail = (code: ConstructorParameters<typeof SignError>[0], why: string): never => {
    throw new SignError(code, `verifying the request: ${why}`);
  };
  if (!member.isOwner)
    throw new OwnerDocumentError('owner-document-required', 'signing the request: requires an owner key');
  if (clusterId !== member.clusterId) fail('sign-request-other-cluster', `it is for cluster ${clusterId}`);
  const known = { documents: [...documents], epoch: BigInt(epoch), removed: [], settings: new Uint8Array() };
  const signer = new DocumentSigner(member, known, ports.clock.nowMs());
  if (signer.everSigned.length < documents.length)
    fail('sign-request-altered', 'it contains a document that no owner has signed');
  if (!signer.isOwner)
    throw new OwnerDocumentError(
      'owner-document-required',
      'signing the request: the key of this workspace was removed',
    );
  const outdated = await whyOutdated(ports.files, member, signer);
  if (outdated !== undefined) fail('sign-request-unfounded', outdated);
  const seen = await readSeenEpoch(ports.files, member.curatorsPath);
  // An epoch that owners have signed in is as good as one that a curator has reported.
  const current = Math.max(member.epoch, seen, ...signer.documents.map((each) => each.epoch));
  if (epoch !== current) fail('sign-request-epoch', `it is for epoch ${epoch}, known is ${current}`);
  return signer;
}

/** The name of the operator who has signed the request. */
function requireSignedOperator(signer: DocumentSigner, { requester }: SignatureRequest): string {
  const fingerprint = fingerprintOfKey(ed25519SpkiFromRaw(requester));
  const operators = signer.newest('operators')?.body.operators ?? [];
  const found = operators.find((each) => each.fingerprint === fingerprint && each.role !== 'viewer');
  if (found === undefined)
    throw new SignError('sign-request-requester', `verifying the request: key ${fingerprint} is no operator`);
  return found.name;
}

/** Refuses a grant that puts a node that this workspace knows on another machine. */
function requireKnownMachine(known: ReadonlyMap<string, string | undefined>, proposal: Proposal): void {
  if (proposal.kind !== 'grant') return;
  const { nodeId, identity } = proposal.body;
  const expected = known.get(nodeId);
  if (expected === undefined || expected === identity) return;
  throw new SignError(
    'sign-request-unfounded',
    `verifying the request: this workspace knows node ${nodeId} on machine ${expected}, not ${identity}`,
  );
}

/** A grant with the lowest serials that follow from the verified documents, instead of those that the request claims. */
function withOwnFloors(signer: DocumentSigner, proposal: Proposal): Proposal {
  if (proposal.kind !== 'grant') return proposal;
  return { kind: 'grant', body: grantFor(signer, proposal.body, proposal.body.roles) };
}
