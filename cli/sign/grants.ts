import { fingerprintOfKey } from '../../internal/pki/index.ts';
import type { Role } from '../../internal/role/index.ts';
import { OperatorApi, type Join } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { NodeRole, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import { callCurator } from '../cluster/index.ts';
import { openSigner, type DocumentSigner } from './document-signer.ts';

const ROLES: Readonly<Record<NodeRole, Role | undefined>> = {
  [NodeRole.UNSPECIFIED]: undefined,
  [NodeRole.CONSENSUS_MEMBER]: 'ConsensusMember',
  [NodeRole.KUBERNETES_CONTROLLER]: 'KubernetesController',
  [NodeRole.KUBERNETES_WORKER]: 'KubernetesWorker',
};

/** A node key on a machine. */
interface Place {
  readonly nodeId: string;
  /** "sha256:HEX" of the node key. */
  readonly fingerprint: string;
  readonly identity: string;
}

/** A grant of these roles; it carries the serials below which a fresh node accepts nothing. */
export function grantFor(signer: DocumentSigner, place: Place, roles: readonly Role[]): Uint8Array {
  const serialOf = (kind: 'owners' | 'policy' | 'operators'): number =>
    Math.max(0, ...signer.documents.filter((each) => each.kind === kind).map(({ serial }) => serial));
  const floors = {
    owners: serialOf('owners'),
    policy: serialOf('policy'),
    operators: serialOf('operators'),
  };
  return signer.sign('grant', { ...place, roles: [...roles], floors });
}

/**
 * What new roles of a node need: a grant where it becomes a control plane, and one of a worker where an earlier grant would
 * outlive its demotion. Nothing where nobody here may sign.
 */
export async function grantForNode(
  context: CommandContext,
  node: Node,
  wanted: readonly NodeRole[],
): Promise<Uint8Array[]> {
  const gains = isControlPlane(wanted);
  if (!gains && !isControlPlane(node.roles)) return [];
  const signer = await openSigner(context);
  if (signer === undefined) return [];
  const fingerprint = fingerprintOfKey(node.publicKey);
  const identity = node.admission?.identity ?? fingerprint.replace('sha256:', 'machine-key:');
  const place = { nodeId: node.nodeId, fingerprint, identity };
  if (gains) return [grantFor(signer, place, rolesFromWire(wanted))];
  const isGranted = signer.newest('grant', node.nodeId) !== undefined;
  return isGranted ? [grantFor(signer, place, ['KubernetesWorker'])] : [];
}

/** What approving a machine needs; nothing for a worker. `which` as `cluster node approve` takes it. */
export async function grantForJoin(
  context: CommandContext,
  which: string,
  wanted: readonly NodeRole[],
): Promise<Uint8Array[]> {
  if (!isControlPlane(wanted)) return [];
  const signer = await openSigner(context);
  if (signer === undefined) return [];
  const { joins } = await callCurator(context, (_, call, of) => of(OperatorApi).listJoins({}, call));
  const join = joinNamed(joins, which);
  if (join === undefined) return []; // the curator says what is wrong with the name
  const { joinId: nodeId, fingerprint, identity } = join;
  return [grantFor(signer, { nodeId, fingerprint, identity }, rolesFromWire(wanted))];
}

/** As the curator finds it: whole, or a beginning that means one machine only. */
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

/** Roles of the curator's contract as records have them; unknown numbers are left out. */
export function rolesFromWire(wanted: readonly NodeRole[]): readonly Role[] {
  return wanted.flatMap((role) => ROLES[role] ?? []);
}
