import { MINUTE_MS } from '../../internal/clock/index.ts';
import { monitoringFrom } from '../../internal/config/index.ts';
import { combine, currentValue } from '../../internal/event/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { isControlPlane } from '../../internal/role/index.ts';
import { launcher, type Plan, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import { apiEndpointOf, KUBELET_FILES } from '../kubernetes/index.ts';
import { ensureExporter, EXPORTER_UNIT, readExporterUnit } from '../units/index.ts';
import { nextWithin } from './next-within.ts';
import type { RoleState, RoleValues } from './role-values.ts';

const FILES = {
  cert: KUBELET_FILES.servingCert,
  key: KUBELET_FILES.servingKey,
  apiServersCa: KUBELET_FILES.ca,
};

/**
 * Number of rounds after which the worker queries systemd about an unchanged unit. It does not query in each round,
 * because each query starts a process.
 */
const UNCHECKED_ROUNDS = 5;

/** Inputs and ports (injected dependencies) of the exporter worker. */
export interface ExporterOptions extends Pick<SystemPorts, 'files' | 'units' | 'clock'> {
  readonly reads: Pick<
    RoleValues,
    'clusterMembership' | 'clusterSettings' | 'localRoles' | 'signedConfiguration'
  >;
}

/** Every member runs an exporter, with the address of its node, if the signed configuration enables it. Pure. */
export function planExporter({
  clusterMembership,
  signedConfiguration,
}: Pick<RoleState, 'clusterMembership' | 'signedConfiguration'>): Plan<string> {
  if (clusterMembership === undefined) return { kind: 'wait', why: 'the membership of this node' };
  // The plan waits instead of stopping the unit, so an exporter of an earlier run of the agent keeps running.
  if (signedConfiguration === undefined) return { kind: 'wait', why: 'the configuration of the cluster' };
  if (!isWanted(signedConfiguration)) return { kind: 'stop', why: 'idle: monitoring.exporter is off' };
  return { kind: 'start', config: clusterMembership.nodeAddress };
}

/** Serves the metrics of this node to Prometheus (cluster-exporter.service). */
export function exporterWorker(options: ExporterOptions): Runnable {
  const { clusterMembership, signedConfiguration } = options.reads;
  return launcher({
    input: combine({ clusterMembership, signedConfiguration }),
    plan: planExporter,
    tearDown: ({ signal }) => options.units.stop(EXPORTER_UNIT, signal),
    start: async (scope, nodeAddress) => {
      scope.run('follow', (child) => follow(options, nodeAddress, child));
    },
  });
}

/** Starts the exporter, and restarts it when its certificate was renewed or the roles of this node have changed. */
async function follow(
  { reads, clock, ...ports }: ExporterOptions,
  nodeAddress: string,
  scope: Scope,
): Promise<never> {
  using changes = reads.localRoles.watch();
  await changes.next(scope.signal); // the present roles
  scope.healthy();
  for (let [running, unchecked] = ['', 0]; ;) {
    const roles = currentValue(reads.localRoles);
    const unit =
      roles === undefined
        ? { missing: 'the roles of this node' }
        : await readExporterUnit(ports.files, {
            nodeAddress,
            apiEndpoint: apiEndpointOf(currentValue(reads.clusterSettings) ?? {}),
            isControlPlane: isControlPlane([...roles]),
            files: FILES,
          });
    scope.waiting('missing' in unit ? unit.missing : undefined);
    unchecked = 'content' in unit && unit.content === running ? unchecked + 1 : 0;
    if ('content' in unit && unchecked % UNCHECKED_ROUNDS === 0) {
      await ensureExporter(ports, unit, scope.signal);
      running = unit.content;
    }
    await nextWithin(changes, MINUTE_MS, clock, scope.signal);
  }
}

/** Whether the configuration enables the exporter. A section in the format of a later version does not enable it. */
function isWanted(configuration: string): boolean {
  try {
    return monitoringFrom(configuration).exporter;
  } catch {
    return false;
  }
}
