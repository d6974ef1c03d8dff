import type { Clock } from '../../internal/clock/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { UnitPort } from '../../internal/platform/index.ts';
import {
  Consensus,
  DEFAULT_QUOTA_BYTES,
  ETCD_PORTS,
  type NamedKey,
  type RunningConsensus,
} from '../consensus/index.ts';
import { CURATOR_PORT, CuratorUnit } from '../curatorunit/index.ts';
import type { Membership } from '../enrolment/index.ts';
import type { ControlPlaneDriver } from '../roleserve/index.ts';
import { ensureClusterAuthority } from './cluster-authority.ts';
import { giveBirth } from './cluster-birth.ts';
import type { MachineIdentity } from './machine-identity.ts';
import type { NodeState } from './node-state.ts';
import { settingsFromSpec } from './enrolment-handlers.ts';
import { PLACES } from './places.ts';

export interface DriverPorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly units: UnitPort;
  readonly clock: Clock;
  readonly log: Logger;
  readonly state: NodeState;
}

export interface DriverOptions {
  readonly machine: MachineIdentity;
  readonly owners: readonly [NamedKey, ...NamedKey[]];
  readonly etcdBinary: string;
  readonly ownAddress: () => string;
}

/** etcd, the first records and the curator on a real machine. */
export function createControlPlaneDriver(ports: DriverPorts, options: DriverOptions): ControlPlaneDriver {
  const { files, clock, state } = ports;
  const { machine, owners, ownAddress } = options;
  let running: RunningConsensus | undefined;
  return {
    startConsensus: async (start, say, signal) => {
      const clusterId = start.kind === 'bootstrap' ? start.data.spec.clusterId : start.membership.clusterId;
      const consensus = new Consensus({
        ...ports,
        onWait: (what, lastError) => say(`waiting for ${what}`, lastError),
      });
      running?.[Symbol.dispose]();
      running = await consensus.start(
        {
          nodeId: machine.nodeId,
          address: start.kind === 'bootstrap' ? ownAddress() : start.membership.nodeAddress,
          clusterId,
          ports: ETCD_PORTS,
          quotaBytes: DEFAULT_QUOTA_BYTES,
          origin: { kind: 'first' },
          etcdBinary: options.etcdBinary,
          stateDir: PLACES.state,
        },
        signal,
      );
    },
    createCluster: async (data, signal) => {
      if (running === undefined) throw new TypeError('a cluster is created in a running etcd');
      const nowMs = (): number => clock.nowMs();
      const authority = await ensureClusterAuthority(
        { files, nowMs },
        { folder: PLACES.ca, clusterName: data.spec.clusterName },
      );
      const born = await giveBirth(
        { admin: running.admin, authority, nowMs },
        { data, machine, address: ownAddress(), owners, signal },
      );
      // The membership comes last: with it on disk the machine resumes and needs the other two.
      await state.settings.save(settingsFromSpec(data.spec));
      await state.roles.save(born.roles);
      await state.membership.save(born.membership);
      return { membership: born.membership, roles: new Set(born.roles) };
    },
    startCurator: async (membership, signal) => {
      if (running === undefined) throw new TypeError('a curator serves beside a running etcd');
      const { certFile, caFile } = await writeCredentials(files, membership);
      const { curator } = running;
      await new CuratorUnit(ports).start(
        {
          clusterId: membership.clusterId,
          nodeId: membership.nodeId,
          listen: { host: '0.0.0.0', port: CURATOR_PORT },
          etcdEndpoints: [running.endpoint],
          metricsUrl: running.metricsUrl,
          command: ['/usr/lib/cluster/node', '--max-semi-space-size=1', '/usr/lib/cluster/joinservice.mjs'],
          configFile: '/etc/cluster/joinservice.json',
          stateDir: PLACES.state,
          files: {
            clusterCaFile: caFile,
            nodeCertFile: certFile,
            nodeKeyFile: PLACES.machineKey,
            etcdCaFile: curator.caFile,
            etcdCertFile: curator.certFile,
            etcdKeyFile: curator.keyFile,
          },
        },
        signal,
      );
      return {
        apiServerEtcd: running.apiServer,
        curatorEndpoint: `${membership.nodeAddress}:${CURATOR_PORT}`,
      };
    },
    untilStopped: (signal) =>
      new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
      }),
  };
}

/** The membership as the PEM files that other programs read. The membership itself stays the truth. */
async function writeCredentials(
  files: FilePort,
  membership: Membership,
): Promise<{ readonly certFile: string; readonly caFile: string }> {
  await files.makeDirectory(PLACES.credentials);
  const [certFile, caFile] = [`${PLACES.credentials}/node.crt`, `${PLACES.credentials}/ca.crt`];
  await files.writeAtomic(certFile, membership.nodeCertPem);
  await files.writeAtomic(caFile, membership.clusterCaPem);
  return { certFile, caFile };
}
