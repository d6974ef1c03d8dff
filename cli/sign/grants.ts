import { fingerprintOfKey, nodeIdOfFingerprint } from '../../internal/pki/index.ts';
import type { Role } from '../../internal/role/index.ts';
import type { Join } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { NodeRole, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import { callCurator } from '../cluster/index.ts';
import type { DocumentBodies } from '../../internal/ownerdocument/index.ts';
import { nothingToSign, openChangeSigner } from './change-signer.ts';
import type { Proposal } from './proposal.ts';
import type { SignedRecords } from './signed-records.ts';

const ROLES: Readonly<Record<NodeRole, Role | undefined>> = {
  [NodeRole.UNSPECIFIED]: undefined,
  [NodeRole.CONSENSUS_MEMBER]: 'ConsensusMember',
  [NodeRole.KUBERNETES_CONTROLLER]: 'KubernetesController',
  [NodeRole.KUBERNETES_WORKER]: 'KubernetesWorker',
};

/** The machine and node key that a grant is for. */
export interface GrantSubject {
  readonly nodeId: string;
  /** "sha256:HEX" of the node key. */
  readonly fingerprint: string;
  readonly identity: string;
}

/** The subject of a grant for a member. Without a hardware identity, its node key is its identity. */
export function grantSubjectOf({ nodeId, publicKey, admission }: Node): GrantSubject {
  const fingerprint = fingerprintOfKey(publicKey);
  const identity = admission?.identity ?? fingerprint.replace('sha256:', 'machine-key:');
  return { nodeId, fingerprint, identity };
}

/** The grant of roles to a node. It contains the serials of the current owner documents: a new node refuses older ones. */
export function grantFor(
  records: SignedRecords,
  { nodeId, fingerprint, identity }: GrantSubject,
  roles: readonly Role[],
): DocumentBodies['grant'] {
  const serialOf = (kind: 'owners' | 'policy' | 'operators'): number =>
    Math.max(0, ...records.documents.filter((each) => each.kind === kind).map(({ serial }) => serial));
  const floors = {
    owners: serialOf('owners'),
    policy: serialOf('policy'),
    operators: serialOf('operators'),
  };
  return { nodeId, fingerprint, identity, roles: [...roles], floors };
}

/**
 * The grant that a role change needs: for a node that becomes a control plane, and for a demoted node, whose
 * earlier grant it replaces. None if the caller cannot sign.
 */
export async function grantForNode(
  context: CommandContext,
  node: Node,
  wanted: readonly NodeRole[],
): Promise<Uint8Array[]> {
  const gains = isControlPlane(wanted);
  if (!gains && !isControlPlane(node.roles)) return nothingToSign(context);
  const signer = await openChangeSigner(context);
  if (signer === undefined) return [];
  const subject = grantSubjectOf(node);
  if (gains)
    return signer.signAll([{ kind: 'grant', body: grantFor(signer, subject, rolesFromWire(wanted)) }]);
  return signer.signAll(isControlPlaneGranted(signer, node.nodeId) ? [withdrawalFor(signer, subject)] : []);
}

/**
 * Withdraws what an owner has granted this node, so that the cluster's signers, which issue certificates, free its
 * address and name, and renew none of its control-plane certificates.
 */
export function withdrawalFor(records: SignedRecords, subject: GrantSubject): Proposal {
  return { kind: 'grant', body: grantFor(records, subject, ['KubernetesWorker']) };
}

/** Whether the newest grant of a node gives it control-plane roles. */
export function isControlPlaneGranted(records: SignedRecords, nodeId: string): boolean {
  return records.newest('grant', nodeId)?.body.roles.includes('ConsensusMember') === true;
}

/** Whether the newest grant of a node withdraws its control-plane roles. */
export function isControlPlaneWithdrawn(records: SignedRecords, nodeId: string): boolean {
  return records.newest('grant', nodeId)?.body.roles.includes('ConsensusMember') === false;
}

/**
 * The grant that approving a machine needs; none for a worker. `which`: the name of the machine as given to
 * `cluster node approve`.
 */
export async function grantForJoin(
  context: CommandContext,
  which: string,
  wanted: readonly NodeRole[],
): Promise<Uint8Array[]> {
  if (!isControlPlane(wanted)) return nothingToSign(context);
  const signer = await openChangeSigner(context);
  if (signer === undefined) return [];
  const { joins } = await callCurator(context, ({ operatorApi }) => operatorApi.listJoins({}));
  const join = joinNamed(joins, which);
  if (join === undefined) return []; // no machine has this name, and the curator reports that
  const { joinId: nodeId, fingerprint, identity } = join;
  // The ID is derived from the key. If the two do not match, a curator may have chosen the key, so no grant is signed.
  if (nodeId !== nodeIdOfFingerprint(fingerprint)) return [];
  const body = grantFor(signer, { nodeId, fingerprint, identity }, rolesFromWire(wanted));
  return signer.signAll([{ kind: 'grant', body }]);
}

/** Finds a join request by the rules of the curator: a whole name, or a prefix that only one machine has. */
function joinNamed(joins: readonly Join[], which: string): Join | undefined {
  const names = ({ joinId, fingerprint, identity }: Join): readonly string[] =>
    [joinId, fingerprint, identity].flatMap((name) => [name, name.replace(/^[a-z0-9-]+:|^node-/, '')]);
  const exact = joins.filter((join) => names(join).includes(which));
  const found =
    exact.length > 0 ? exact : joins.filter((join) => names(join).some((name) => name.startsWith(which)));
  return found.length === 1 ? found[0] : undefined;
}

function isControlPlane(roles: readonly NodeRole[]): boolean {
  return roles.includes(NodeRole.CONSENSUS_MEMBER);
}

/** Converts role numbers of the curator's contract to the role names in records; unknown numbers are left out. */
export function rolesFromWire(wanted: readonly NodeRole[]): readonly Role[] {
  return wanted.flatMap((role) => ROLES[role] ?? []);
}
