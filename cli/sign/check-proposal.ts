import { canonicalJson, verifyConfigurationChange } from '../../internal/config/index.ts';
import { parseJson } from '../../internal/file/index.ts';
import { nodeIdOfFingerprint } from '../../internal/pki/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { SignError } from './errors.ts';
import { sha256Of, type Proposal } from './proposal.ts';
import type { SignedRecords } from './signed-records.ts';

/** No configuration has more levels. */
const MAX_DEPTH = 64;

type ProposalOf<K extends Proposal['kind']> = Proposal & { readonly kind: K };

/**
 * Checks that what an operator proposes follows from what owners have signed. An owner who then sees all differences has seen
 * everything that the new document says.
 * @throws SignError `sign-request-unfounded`, `sign-request-owners`, ConfigError if the configuration is invalid
 */
export function checkProposal(records: SignedRecords, proposal: Proposal): void {
  switch (proposal.kind) {
    case 'grant':
      return checkGrant(proposal);
    case 'operators':
      return checkOperators(records, proposal);
    case 'policy':
      return checkPolicy(records, proposal);
    case 'readmission':
      return; // it says nothing but the machine
  }
}

/** The ID is derived from the key. A grant for another key under this ID would be the operator's choice. */
function checkGrant({ body: { nodeId, fingerprint } }: ProposalOf<'grant'>): void {
  if (nodeId !== nodeIdOfFingerprint(fingerprint))
    throw unfounded(`node ${printable(nodeId)} has another key than ${fingerprint}`);
}

function checkOperators(records: SignedRecords, { body }: ProposalOf<'operators'>): void {
  const before = records.newest('operators')?.body.operators;
  if (before === undefined) throw unfounded('no owner has signed the current operators');
  const ownersIn = (all: typeof before): string =>
    canonicalJson(all.filter(({ role }) => role === 'owner').sort((a, b) => (a.name < b.name ? -1 : 1)));
  if (ownersIn(before) !== ownersIn(body.operators))
    throw new SignError('sign-request-owners', 'proposing operators: an owner is added, changed or removed');
}

function checkPolicy(records: SignedRecords, { before, after }: ProposalOf<'policy'>): void {
  if (records.newest('policy')?.body.configurationSha256 !== sha256Of(before))
    throw unfounded('no owner has signed the configuration that it changes');
  const next = parseJson(after);
  // A second member of the same name would be signed and not shown.
  if (isDeeperThan(MAX_DEPTH, next) || canonicalJson(next ?? null) !== after)
    throw unfounded('the configuration is not in the canonical encoding');
  verifyConfigurationChange(before, after);
}

/** Whether a JSON value is nested more deeply than this. Functions that call themselves for each level would fail. */
function isDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((each) => isDeeperThan(levels - 1, each));
}

function unfounded(why: string): SignError {
  return new SignError('sign-request-unfounded', `proposing a document: ${why}`);
}
