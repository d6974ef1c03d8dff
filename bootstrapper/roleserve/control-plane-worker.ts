import { combine, type Readable, type Settable } from '../../internal/event/index.ts';
import { launcher, type Plan, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import type { Membership } from '../membership/index.ts';
import type { PhaseReporter } from '../phases/index.ts';
import type { MemberState } from './node-membership.ts';
import type { BootstrapData, LocalComponents, LocalControlPlane, RoleSet } from './role-values.ts';

interface Inputs {
  readonly bootstrap: BootstrapData | undefined;
  readonly membership: Membership | undefined;
  readonly roles: RoleSet | undefined;
  readonly components: LocalComponents | undefined;
}

/** Create the cluster, or serve as the member that this node already is. */
export type ControlPlaneStart =
  | { readonly kind: 'bootstrap'; readonly data: BootstrapData }
  | { readonly kind: 'serve'; readonly membership: Membership };

export interface ControlPlaneWorkerOptions {
  readonly reads: {
    readonly bootstrapData: Readable<BootstrapData | undefined>;
    readonly clusterMembership: Readable<Membership | undefined>;
    readonly localRoles: Readable<RoleSet | undefined>;
    readonly localComponents: Readable<LocalComponents | undefined>;
  };
  readonly writes: {
    readonly localControlPlane: Settable<LocalControlPlane | undefined>;
  };
  /** Publishes the membership of the cluster that this node has created. */
  readonly onClusterCreated: (state: MemberState) => void;
  readonly phases: PhaseReporter;
  readonly driver: ControlPlaneDriver;
}

/** Only the presence of the role starts and stops anything: changed peers, labels or certificates restart nothing. */
export function planControlPlane({
  bootstrap,
  membership,
  roles,
  components,
}: Inputs): Plan<ControlPlaneStart> {
  if (bootstrap === undefined && roles === undefined) return { kind: 'wait', why: 'the roles of this node' };
  if (bootstrap === undefined && roles?.has('ConsensusMember') !== true)
    return { kind: 'stop', why: 'idle: role absent' };
  if (components?.controlPlane !== true) return { kind: 'wait', why: 'the components' };
  if (bootstrap !== undefined) return { kind: 'start', config: { kind: 'bootstrap', data: bootstrap } };
  if (membership === undefined) return { kind: 'wait', why: 'the membership of this node' };
  return { kind: 'start', config: { kind: 'serve', membership } };
}

/** Runs etcd and the curator where the role is; creates the cluster where enrolment says so. */
export function controlPlaneWorker(options: ControlPlaneWorkerOptions): Runnable {
  const { reads } = options;
  return launcher({
    input: combine({
      bootstrap: reads.bootstrapData,
      membership: reads.clusterMembership,
      roles: reads.localRoles,
      components: reads.localComponents,
    }),
    plan: planControlPlane,
    start: (scope, start) => serve(options, scope, start),
    tearDown: async ({ signal }) => {
      // While it may not go, it goes on serving.
      await options.driver.checkStop(signal);
      options.writes.localControlPlane.set(undefined);
      await options.driver.stop(signal);
    },
  });
}

async function serve(
  { driver, phases, writes, onClusterCreated }: ControlPlaneWorkerOptions,
  scope: Scope,
  start: ControlPlaneStart,
): Promise<void> {
  const { signal } = scope;
  writes.localControlPlane.set(undefined);
  await phases.run('consensus', (progress) =>
    driver.startConsensus(start, (text, lastError) => progress.report(text, { lastError }), signal),
  );
  let membership = start.kind === 'serve' ? start.membership : undefined;
  if (start.kind === 'bootstrap') {
    const created = await phases.run('membership', () => driver.createCluster(start.data, signal));
    membership = created.membership;
    onClusterCreated(created);
  }
  if (membership === undefined) throw new TypeError('a control plane without a membership');
  const serving = membership;
  const controlPlane = await phases.run('curator', () => driver.startCurator(serving, signal));
  writes.localControlPlane.set(controlPlane);
  scope.run('repair', async (repair) => {
    repair.healthy();
    repair.waiting('control planes that are struck off');
    await driver.repairMembers(repair.signal);
  });
}

/** etcd, the cluster's first record, and the curator. Every step may be repeated; each is durable when it resolves. */
export interface ControlPlaneDriver {
  startConsensus(
    start: ControlPlaneStart,
    say: (text: string, lastError?: unknown) => void,
    signal: AbortSignal,
  ): Promise<void>;
  /** Creates or finds the cluster; membership and roles are on disk when it resolves. */
  createCluster(data: BootstrapData, signal: AbortSignal): Promise<MemberState>;
  startCurator(membership: Membership, signal: AbortSignal): Promise<LocalControlPlane>;
  /** Takes etcd's members of lost nodes out, once they are struck off; until the signal fires. */
  repairMembers(signal: AbortSignal): Promise<void>;
  /** Throws while the cluster could not do without this node's control plane. */
  checkStop(signal: AbortSignal): Promise<void>;
  /** The role has gone: nothing of the control plane stays running. Fine when nothing runs. */
  stop(signal: AbortSignal): Promise<void>;
}
