import { createPublicKey } from 'node:crypto';
import { BlobStore, parseManifest } from '../../internal/bundle/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { Provisioning } from '../../internal/config/index.ts';
import { selfSignedCertificate } from '../../internal/crypto/index.ts';
import { when } from '../../internal/event/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { AppendPort, FilePort, StreamPort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { MachinePort, UnitPort } from '../../internal/platform/index.ts';
import { spkiOf } from '../../internal/pki/index.ts';
import { supervise, type Runnable, type TreeSnapshot } from '../../internal/supervisor/index.ts';
import { consensusLayout, ETCD_PORTS, type NamedKey } from '../consensus/index.ts';
import { createCuratorDialer } from '../curatorclient/index.ts';
import { CURATOR_PORT } from '../curatorunit/index.ts';
import { Enrolment, type Membership } from '../enrolment/index.ts';
import { createInitServer, InitJob, type InitSpec } from '../initserver/index.ts';
import { Kubeadm, Marks, PATHS, probeReadyz, type HostSettings } from '../kubernetes/index.ts';
import { NodeLock } from '../nodelock/index.ts';
import { FileEventStore, PhaseLog } from '../phases/index.ts';
import { runPreflight } from '../preflight/index.ts';
import {
  componentsWorker,
  controlPlaneWorker,
  kubernetesWorker,
  roleFetchWorker,
  RoleValues,
  statusPushWorker,
} from '../roleserve/index.ts';
import { listCertificates } from './certificates.ts';
import { createBlobUploads, createComponentSource } from './component-store.ts';
import { createControlPlaneDriver } from './controlplane-driver.ts';
import { ensureClusterAuthority } from './cluster-authority.ts';
import { createEnrolmentHandlers } from './enrolment-handlers.ts';
import { buildInitOutcome } from './init-outcome.ts';
import { loadMachineIdentity } from './machine-identity.ts';
import { NodeState } from './node-state.ts';
import { INIT_PORT, PLACES } from './places.ts';

const GRACE_MS = 10_000;
/** The owner has this long to fetch a result that it did not acknowledge. */
const ACKNOWLEDGE_MS = 60 * 60 * 1000;
/** Room beside the bundle itself: unpacked images, etcd, logs. */
const HEADROOM_BYTES = 1024 ** 3;
const ED25519_SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

export interface AgentPorts {
  readonly files: FilePort & AppendPort;
  readonly streams: StreamPort;
  readonly commands: CommandRunner;
  readonly units: UnitPort;
  readonly machine: MachinePort;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
}

export interface AgentOptions {
  readonly provisioning: Provisioning;
  readonly version: string;
  /** The tree is up: whoever waits for the agent may go on. */
  readonly onReady: () => Promise<void>;
  readonly signal: AbortSignal;
}

/** The agent: enrolment once, then the roles of this machine for its whole life. Resolves when its signal fired. */
export async function runAgent(ports: AgentPorts, options: AgentOptions): Promise<void> {
  const tree = { of: (): TreeSnapshot => [] };
  const agent = await assemble(ports, options, () => tree.of());
  const { log, clock, random } = ports;
  const root: Runnable = async (scope) => {
    for (const [name, runnable] of Object.entries(agent)) scope.run(name, runnable);
    scope.healthy();
    await options.onReady();
    await new Promise<void>((resolve) =>
      scope.signal.addEventListener('abort', () => resolve(), { once: true }),
    );
    scope.signal.throwIfAborted();
  };
  const supervision = supervise({ root, log, clock, random, graceMs: GRACE_MS, signal: options.signal });
  tree.of = () => supervision.tree();
  await supervision.finished;
}

/** Everything is wired here and nowhere else: values, their one writer each, and who reads them. */
async function assemble(
  ports: AgentPorts,
  { provisioning, version, signal }: AgentOptions,
  tree: () => TreeSnapshot,
): Promise<Readonly<Record<string, Runnable>>> {
  const { files, streams, clock, log, machine, units, commands } = ports;
  const nowMs = (): number => clock.nowMs();
  await files.makeDirectory(PLACES.state);
  const identity = await loadMachineIdentity(files, PLACES);
  log.info('this machine', { fingerprint: identity.fingerprint, nodeId: identity.nodeId, version });
  const host: HostSettings = {
    restrictOomScoreAdj: provisioning.containerRuntime.restrictOomScoreAdj ?? false,
    failCgroupV1: provisioning.kubelet.failCgroupV1 ?? true,
  };
  const ownAddress = (): string => provisioning.address ?? machine.addresses()[0] ?? '127.0.0.1';
  const store = new BlobStore({ files, streams, roots: [PLACES.store, ...provisioning.seedStores] });
  const uploads = createBlobUploads({ store, files, streams, signal }, PLACES.state);
  await files.makeDirectory(PLACES.init);
  const phases = await PhaseLog.open({
    store: new FileEventStore(files, PLACES.events),
    clock,
    log: log.child('phases'),
  });
  const lock = new NodeLock({ files, path: PLACES.lock, nowMs });
  await files.makeDirectory(PLACES.lock.slice(0, PLACES.lock.lastIndexOf('/')));
  const values = new RoleValues();
  const state = new NodeState(files);
  const preflight = (spec: InitSpec): Promise<void> => {
    const { components } = parseManifest(Buffer.from(spec.bundleManifest, 'utf8'));
    const neededBytes = components.reduce((sum, { sizeBytes }) => sum + sizeBytes, HEADROOM_BYTES);
    const probe = { files, machine, freeBytes: () => streams.freeBytes(PLACES.state) };
    return runPreflight(probe, { nodeName: spec.nodeName, wantedAddress: provisioning.address, neededBytes });
  };
  const job = new InitJob({ files, lock, phases, preflight }, PLACES.init);
  await job.restore();
  const enrolment = new Enrolment<Membership>({
    handlers: createEnrolmentHandlers({ files, lock, job, state, values }),
    log: log.child('enrolment'),
  });
  const owners = provisioning.ownerKeys.map((key, index) => namedKey(key, index)) as [
    NamedKey,
    ...NamedKey[],
  ];
  const driver = createControlPlaneDriver(
    { files, commands, units, clock, log: log.child('consensus'), state },
    { machine: identity, owners, etcdBinary: `${PATHS.bin}/etcd`, ownAddress },
  );
  const sources = createComponentSource({ store, files, streams, signal });
  const reads = values;
  const curators = createCuratorDialer({ keyPem: identity.keyPem, clock, port: CURATOR_PORT });
  return {
    initserver: initServerRunnable(),
    enrolment: async (scope) => {
      scope.healthy();
      await enrolment.run(scope.signal);
      await enrolment.finished(scope.signal);
      scope.done();
    },
    outcome: async (scope) => {
      scope.healthy();
      const record = await when(job.accepted, () => true, scope.signal);
      const membership = await enrolment.finished(scope.signal);
      await when(values.kubernetesStatus, (status) => status !== undefined, scope.signal);
      const finished = job.outcome.peek();
      if (!finished.set || finished.value === undefined) {
        const authority = await ensureClusterAuthority(
          { files, nowMs },
          { folder: PLACES.ca, clusterName: membership.clusterName },
        );
        await job.finish(await buildInitOutcome({ files, authority, nowMs }, record, membership));
      }
      scope.done();
    },
    rolefetch: roleFetchWorker({
      reads,
      writes: values,
      curators,
      saveRoles: (roles) => state.roles.save(roles),
    }),
    statuspush: statusPushWorker({
      reads,
      curators,
      clock,
      facts: {
        agentVersion: version,
        bootId: () => machine.bootId(),
        tree,
        certificates: () => listCertificates(files),
      },
    }),
    components: componentsWorker({
      reads,
      writes: values,
      phases,
      host,
      ports: { ...sources, commands, files, units },
    }),
    controlplane: controlPlaneWorker({
      reads,
      writes: {
        bootstrapSpent: () => values.bootstrapData.set(undefined),
        clusterMembership: values.clusterMembership,
        localRoles: values.localRoles,
        localControlPlane: values.localControlPlane,
      },
      phases,
      driver,
    }),
    kubernetes: kubernetesWorker({
      reads,
      writes: values,
      phases,
      host,
      ownAddress,
      apiServerEtcd: {
        endpoint: `https://127.0.0.1:${ETCD_PORTS.client}`,
        ...consensusLayout(PLACES.state).user('apiserver'),
      },
      ports: {
        files,
        commands,
        units,
        clock,
        kubeadm: new Kubeadm({ commands, log: log.child('kubeadm') }),
        marks: new Marks(files),
        probe: probeReadyz,
      },
    }),
  };

  /** Open until the owner has acknowledged; a resumed member without a job never opens it. */
  function initServerRunnable(): Runnable {
    return async (scope) => {
      const known = job.accepted.peek();
      const member = (await state.membership.load()) !== undefined;
      if (job.acknowledged.peek().set || (member && !known.set)) {
        scope.healthy();
        scope.waiting('nothing: the init is acknowledged');
        await aborted(scope.signal);
      }
      const certPem = await selfSignedCertificate({
        keyPem: identity.keyPem.reveal(),
        commonName: identity.nodeId,
        nowMs: nowMs(),
      });
      await using server = createInitServer(
        {
          job,
          phases,
          clock,
          machine,
          blobs: uploads,
          agentVersion: version,
          fingerprint: identity.fingerprint,
          enrolmentState: () => {
            const status = enrolment.status.peek();
            return status.set ? status.value.state : 'New';
          },
        },
        {
          identity: { certPem, keyPem: identity.keyPem },
          ownerKeys: provisioning.ownerKeys.map((key) => Buffer.from(key, 'base64')) as unknown as [
            Uint8Array,
            ...Uint8Array[],
          ],
          log: scope.log,
        },
      );
      await server.listen('0.0.0.0', INIT_PORT);
      scope.log.info('waiting for an owner', { port: INIT_PORT, fingerprint: identity.fingerprint });
      scope.healthy();
      scope.waiting('an owner');
      await Promise.race([when(job.acknowledged, () => true, scope.signal), tooLate(scope.signal)]);
      await server.close(2_000);
      scope.log.info('the init port is closed', {});
      scope.waiting('nothing: the init is acknowledged');
      await aborted(scope.signal);
    };
  }

  async function tooLate(until: AbortSignal): Promise<void> {
    await when(job.outcome, (outcome) => outcome !== undefined, until);
    await clock.sleep(ACKNOWLEDGE_MS, until);
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise<never>((_, reject) => {
    if (signal.aborted) reject(signal.reason as Error);
    else signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
}

function namedKey(base64: string, index: number): NamedKey {
  const der = Buffer.concat([ED25519_SPKI_PREFIX, Buffer.from(base64, 'base64')]);
  return {
    name: index === 0 ? 'owner' : `owner-${index + 1}`,
    pubKeyDer: spkiOf(createPublicKey({ key: der, format: 'der', type: 'spki' })),
  };
}
