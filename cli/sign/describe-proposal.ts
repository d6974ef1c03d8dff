import { roleNames } from '../../internal/role/index.ts';
import { differencesOf, MAX_CONFIG_BYTES, type Json, type JsonPath } from '../../internal/config/index.ts';
import type { DocumentBodies } from '../../internal/ownerdocument/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { sha256Of, type Proposal } from './proposal.ts';
import type { SignedRecords } from './signed-records.ts';

type SignedOperator = DocumentBodies['operators']['operators'][number];

/**
 * What a document that passed `checkProposal` would allow, and how it differs from what owners have signed before. An owner signs
 * nothing that these lines do not say, so no text is truncated.
 * @param knownNodes the nodes, by ID, that this workspace has seen without relying on a curator, with their machines
 */
export function describeProposal(
  records: SignedRecords,
  proposal: Proposal,
  knownNodes: ReadonlyMap<string, unknown>,
): readonly string[] {
  switch (proposal.kind) {
    case 'grant':
      return describeGrant(records, proposal.body, knownNodes);
    case 'readmission':
      return [
        `  readmission     machine ${proposal.body.identity} may ask to join again`,
        `    lifts         its removal number ${proposal.body.removal}, and no other`,
      ];
    case 'operators':
      return describeOperators(records.newest('operators')?.body.operators ?? [], proposal.body.operators);
    case 'policy':
      return describePolicy(records, proposal);
  }
}

function describeGrant(
  records: SignedRecords,
  { nodeId, identity, fingerprint, roles }: DocumentBodies['grant'],
  knownNodes: ReadonlyMap<string, unknown>,
): readonly string[] {
  const before = records.newest('grant', nodeId)?.body;
  const isControlPlane = roles.some((role) => role !== 'KubernetesWorker');
  const seen = knownNodes.has(nodeId) ? 'known to this workspace' : 'not known to this workspace';
  const isMachineUnknown = knownNodes.has(nodeId) && knownNodes.get(nodeId) === undefined;
  return [
    isControlPlane
      ? `  control plane   machine ${identity} may become one`
      : `  withdrawal      machine ${identity} is no control plane any more`,
    `    roles         ${roleNames(roles).join(', ')}`,
    `    node          ${nodeId}, ${seen}${isMachineUnknown ? ', but not on which machine' : ''}`,
    `    key           ${fingerprint}`,
    `    before        ${before === undefined ? '<none>' : `${roleNames(before.roles).join(', ')} on machine ${before.identity}`}`,
  ];
}

function describeOperators(
  before: readonly SignedOperator[],
  after: readonly SignedOperator[],
): readonly string[] {
  const lineOf = ({ name, role, fingerprint }: SignedOperator): string => `${name} (${role}, ${fingerprint})`;
  const had = new Set(before.map(lineOf));
  const has = new Set(after.map(lineOf));
  return [
    '  operators       from now on, these and no others:',
    ...after.map((each) => `    ${had.has(lineOf(each)) ? 'stays' : 'NEW  '}         ${lineOf(each)}`),
    ...before.filter((each) => !has.has(lineOf(each))).map((each) => `    GONE          ${lineOf(each)}`),
  ];
}

/**
 * The operator chooses which signed configuration comes before. If it was never submitted, its changes are not in effect, and these
 * lines do not show them again. So they show when it was signed.
 */
function describePolicy(
  records: SignedRecords,
  { before, after }: Proposal & { readonly kind: 'policy' },
): readonly string[] {
  const signed = records.newest('policy');
  const from =
    signed === undefined
      ? 'none'
      : `the one signed on ${new Date(signed.issuedMs).toISOString()} (serial ${signed.serial})`;
  const [was, will] = [JSON.parse(before) as Json, JSON.parse(after) as Json];
  const changes = differencesOf(was, will);
  return [
    `  configuration   SHA-256 ${sha256Of(after)}; differs from ${from} in:`,
    ...changes.flatMap((path) => [
      `    ${shown(path.join('.')) || 'the whole file'}`,
      `      before      ${shownValue(was, path)}`,
      `      after       ${shownValue(will, path)}`,
    ]),
    ...(changes.length === 0 ? ['    <none>'] : []),
  ];
}

function shownValue(document: Json, path: JsonPath): string {
  const value = path.reduce<Json | undefined>(memberOf, document);
  return value === undefined ? '<none>' : shown(JSON.stringify(value));
}

/** The member of a map, or the element `[identity]` of a list. */
function memberOf(value: Json | undefined, key: string): Json | undefined {
  if (Array.isArray(value)) {
    const all = value as readonly Readonly<Record<string, Json>>[];
    return all.find(({ identity }) => `[${identity as string}]` === key);
  }
  const map = value as Readonly<Record<string, Json>> | undefined;
  return map !== undefined && Object.hasOwn(map, key) ? map[key] : undefined;
}

function shown(text: string): string {
  return printable(text, { maxChars: 2 * MAX_CONFIG_BYTES });
}
