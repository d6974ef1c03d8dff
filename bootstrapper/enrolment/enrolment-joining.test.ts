import { describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { currentValue } from '../../internal/event/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { everyFault } from '../../internal/testing/host/faulty-files.ts';
import { createMemoryLogger } from '../../internal/testing/memory-logger.ts';
import { MemoryFiles } from '../../internal/testing/host/memory-files.ts';
import { untilAborted } from '../../internal/cleanup/index.ts';
import { Enrolment } from './enrolment.ts';
import type { Membership } from '../membership/index.ts';
import { InitJob, type InitRecord } from '../initserver/index.ts';
import type { GrantedAdmission, JoinRecord, OpenedTicket } from '../joinclient/index.ts';
import { CONTROL_PLANE_KEY_FILES, KUBELET_FILES } from '../kubernetes/index.ts';
import { NodeLock } from '../nodelock/index.ts';
import { NodeMembership, RoleValueStore, type RoleValues } from '../roleserve/index.ts';
import { createEnrolmentHandlers, type EnrolmentPorts } from './enrolment-handlers.ts';
import { AGENT_PATHS, loadMachineIdentity, createNodeState } from '../nodestate/index.ts';

const never = new AbortController().signal;
const clusterId = 'a'.repeat(32);
const roles = ['ConsensusMember', 'KubernetesController'] as const;

/**
 * A fake cluster: it records one membership for each machine key, and issues certificates that name their
 * keys.
 */
class FakeAdmissions {
  /** Node ids that have been recorded, each once even if its machine requests several tickets. */
  readonly members = new Set<string>();
  asked = 0;
  /** Called before a response is sent; throws to simulate a lost response. */
  onAnswer: () => void = () => undefined;

  joinClient(files: FilePort): EnrolmentPorts['joinClient'] {
    const commit = () => this.#ticket(files);
    return {
      admit: async (): Promise<GrantedAdmission> => {
        const { nodeId } = await loadMachineIdentity(files, AGENT_PATHS);
        const record: JoinRecord = { clusterId, joinId: nodeId, endpoints: ['198.18.0.11:9090'] };
        return { record, requestTicket: commit, [Symbol.dispose]: () => undefined };
      },
      requestTicket: commit,
      reportJoined: () => undefined,
    };
  }

  async #ticket(files: FilePort): Promise<OpenedTicket> {
    this.asked++;
    const { nodeId } = await loadMachineIdentity(files, AGENT_PATHS);
    const keys = await ensureKeys(files);
    this.members.add(nodeId);
    this.onAnswer();
    const names = Object.keys(CONTROL_PLANE_KEY_FILES);
    return {
      clusterId,
      clusterName: 'blue',
      taints: [],
      clusterCaPem: 'cluster CA',
      epoch: 1,
      nodeId,
      nodeName: 'c2',
      nodeCertPem: `of ${nodeId}`,
      roles,
      directory: [{ nodeId: 'node-1', host: '198.18.0.11' }],
      settings: {
        clusterName: 'blue',
        kubernetesVersion: 'v1.35.4',
        podSubnet: 'p',
        serviceSubnet: 's',
        apiServerSans: [],
        bundleManifest: '',
      },
      kubernetesCaPem: 'Kubernetes CA',
      kubernetesClientsCaPem: undefined,
      kubeletClientCertPem: `for ${keys.client}`,
      kubeletServingCertPem: `for ${keys.serving}`,
      controlPlaneKeys: new Map(names.map((name) => [name, new Secret(`text of ${name}`)])),
      signedKeys: { kind: 'unsigned', why: 'never rotated' },
    };
  }
}

interface Life {
  readonly values: RoleValues;
  readonly job: InitJob;
  readonly enrolment: Enrolment<Membership>;
  readonly lock: NodeLock;
}

/** Runs the agent once on a disk. */
async function live(
  files: MemoryFiles | Parameters<Parameters<typeof everyFault>[0]['run']>[0],
  joinClient: (files: FilePort) => EnrolmentPorts['joinClient'],
): Promise<Life> {
  for (const directory of [AGENT_PATHS.enrolment, AGENT_PATHS.init]) await files.makeDirectory(directory);
  const lock = new NodeLock({ files, path: AGENT_PATHS.lock, nowMs: () => 0 });
  const phases = {
    after: () => [],
    run: <T>(_: string, work: (progress: { report(): void; reportUnchanged(): void }) => Promise<T>) =>
      work({ report: () => undefined, reportUnchanged: () => undefined }),
  };
  const store = new RoleValueStore();
  const { values } = store;
  const ownAddress = () => '198.18.0.12';
  const job = new InitJob(
    { files, lock, phases, preflight: () => Promise.resolve(), ownAddress },
    AGENT_PATHS.init,
  );
  const { log } = createMemoryLogger();
  const handlers = createEnrolmentHandlers({
    ...{ files, lock, job, ownAddress, log },
    node: new NodeMembership(store),
    clusterMembership: values.clusterMembership,
    state: createNodeState(files),
    joinClient: joinClient(files),
    ensureValidCertificates: (known) => Promise.resolve(known),
  });
  const enrolment = new Enrolment<Membership>({ handlers, log });
  void enrolment.run(never);
  return { values, job, enrolment, lock };
}

describe('joining', () => {
  test('writes everything that the roles need to disk and returns the membership', async () => {
    const disk = new MemoryFiles();
    const cluster = new FakeAdmissions();
    const { enrolment, values, lock } = await live(disk, (files) => cluster.joinClient(files));
    const membership = await enrolment.finished(never);
    expect(membership).toMatchObject({ clusterId, nodeName: 'c2', nodeAddress: '198.18.0.12' });
    expect(values.localRoles.peek()).toEqual({ set: true, value: new Set(roles) });
    expect(await lock.read()).toMatchObject({ by: 'join', clusterId, id: membership.nodeId });
    for (const [name, path] of Object.entries(CONTROL_PLANE_KEY_FILES)) {
      expect(await textOf(disk, path)).toBe(`text of ${name}`);
    }
    expect(cluster.asked).toBe(1);
  });

  test('a join continues after a crash at any write with the same key and creates one membership', async () => {
    let visited = 0;
    for (const isAnswerLost of [false, true]) {
      const cluster = new FakeAdmissions();
      for await (const { disk, name } of everyFault({
        faults: ['crash-before', 'crash-after', 'no-space'],
        prepare: async () => {
          cluster.members.clear();
          let isFirst = isAnswerLost;
          cluster.onAnswer = () => {
            if (isFirst) throw new Error('the answer was lost');
            isFirst = false;
          };
        },
        run: async (files) => {
          const { enrolment } = await live(files, (each) => cluster.joinClient(each));
          await enrolment.finished(never);
        },
      })) {
        visited++;
        cluster.onAnswer = () => undefined;
        const { enrolment, lock } = await live(disk, (files) => cluster.joinClient(files));
        const membership = await enrolment.finished(never);
        const { nodeId } = await loadMachineIdentity(disk, AGENT_PATHS);
        expect({ name, id: membership.nodeId, members: [...cluster.members] }).toEqual({
          name,
          id: nodeId,
          members: [nodeId],
        });
        expect((await lock.read())?.id).toBe(nodeId);
        const keys = await ensureKeys(disk);
        expect(await textOf(disk, KUBELET_FILES.clientCert)).toBe(`for ${keys.client}`);
        expect(await textOf(disk, KUBELET_FILES.servingCert)).toBe(`for ${keys.serving}`);
      }
    }
    expect(visited).toBeGreaterThan(100);
  });

  test('an init that acquires the node lock first wins; the join admission has no effect', async () => {
    const disk = new MemoryFiles();
    const admitted = Promise.withResolvers<void>();
    const cluster = new FakeAdmissions();
    const life = await live(disk, (files) => {
      const client = cluster.joinClient(files);
      return { ...client, admit: async (signal) => (await admitted.promise, client.admit(signal)) };
    });
    await life.job.accept(
      { initId: 'one', spec: { clusterId, serviceSubnet: '198.19.128.0/20' } } as InitRecord,
      never,
    );
    admitted.resolve();
    const status = life.enrolment.status.watch();
    for (let state = 'New'; state !== 'CreatingCluster';) state = (await status.next(never)).state;
    expect(await life.lock.read()).toMatchObject({ by: 'init', id: 'one' });
    expect(cluster.members.size).toBe(0);
    expect(await disk.stat(AGENT_PATHS.join)).toBeUndefined();
  });

  test('after a join admission acquired the node lock, an init is refused with initserver-other-cluster', async () => {
    const cluster = new FakeAdmissions();
    const life = await live(new MemoryFiles(), (files) => cluster.joinClient(files));
    await life.enrolment.finished(never);
    const request = {
      initId: 'two',
      spec: { clusterId: 'b'.repeat(32), serviceSubnet: '198.19.128.0/20' },
    } as InitRecord;
    await expect(life.job.accept(request, never)).rejects.toMatchObject({ code: 'initserver-other-cluster' });
  });

  test('values of a member are empty before the join, and on disk before any reader sees them', async () => {
    const disk = new MemoryFiles();
    const admitted = Promise.withResolvers<void>();
    const cluster = new FakeAdmissions();
    const { values, enrolment } = await live(disk, (files) => {
      const client = cluster.joinClient(files);
      return { ...client, admit: async (signal) => (await admitted.promise, client.admit(signal)) };
    });
    const { clusterMembership, clusterSettings, localRoles, localControlPlane } = values;
    const members = { clusterMembership, clusterSettings, localRoles };
    const isEmpty = (): boolean[] =>
      Object.values(members).map((each) => currentValue<unknown>(each) === undefined);
    expect(isEmpty()).toEqual([true, true, true]);
    const onDisk = new Map<string, Promise<string>>();
    using _seen = clusterMembership.subscribe(() => {
      if (onDisk.size > 0) return; // only the first notification is checked
      for (const path of [
        AGENT_PATHS.membership,
        `${AGENT_PATHS.credentials}/node.crt`,
        KUBELET_FILES.clientCert,
      ])
        onDisk.set(path, textOf(disk, path));
    });
    admitted.resolve();
    const { nodeId, directory } = await enrolment.finished(never);
    expect(isEmpty()).toEqual([false, false, false]);
    const stored = JSON.parse((await onDisk.get(AGENT_PATHS.membership)) ?? '') as { value: Membership };
    expect(stored.value).toMatchObject({ nodeId, directory });
    expect(directory.length).toBeGreaterThan(0);
    expect(await onDisk.get(`${AGENT_PATHS.credentials}/node.crt`)).toBe(`of ${nodeId}`);
    expect(await onDisk.get(KUBELET_FILES.clientCert)).toMatch(/^for /);
    // Only a node that runs etcd publishes a client of etcd.
    expect(currentValue(localControlPlane)).toBeUndefined();
  });

  test('a member whose agent is killed comes back as the same node without another join', async () => {
    const disk = new MemoryFiles();
    const cluster = new FakeAdmissions();
    const first = await live(disk, (files) => cluster.joinClient(files));
    const before = await first.enrolment.finished(never);
    const nobody = {
      admit: untilAborted,
      requestTicket: () => Promise.reject(new Error('asked')),
      reportJoined: () => undefined,
    };
    for (let life = 0; life < 3; life++) {
      const { enrolment, values } = await live(disk, () => nobody);
      expect(await enrolment.finished(never)).toEqual(before);
      expect(currentValue(values.localRoles)).toEqual(new Set(roles));
    }
    expect([cluster.asked, [...cluster.members]]).toEqual([1, [before.nodeId]]);
  });

  test('a lock without its join record makes enrolment fail, and no ticket is requested', async () => {
    const disk = new MemoryFiles();
    await disk.makeDirectory(AGENT_PATHS.enrolment);
    const lock = new NodeLock({ files: disk, path: AGENT_PATHS.lock, nowMs: () => 0 });
    await lock.acquire({ clusterId, by: 'join', id: 'node-1' });
    const { enrolment } = await live(disk, () => ({
      admit: untilAborted,
      requestTicket: (_, signal) => untilAborted(signal),
      reportJoined: () => undefined,
    }));
    await expect(enrolment.finished(never)).rejects.toMatchObject({
      code: 'enrolment-files-missing',
      details: { path: AGENT_PATHS.join, clusterId },
    });
  });
});

async function textOf(files: FilePort, path: string): Promise<string> {
  return Buffer.from((await files.read(path, 1e6)) ?? []).toString('utf8');
}

/**
 * Like `ensureTicketKeys`, with a random text in place of each key, which is fast enough for every crash
 * point.
 */
async function ensureKeys(files: FilePort): Promise<{ readonly client: string; readonly serving: string }> {
  for (const path of [KUBELET_FILES.clientKey, KUBELET_FILES.servingKey]) {
    await files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
    await files.createExclusive(path, randomUUID());
  }
  return {
    client: await textOf(files, KUBELET_FILES.clientKey),
    serving: await textOf(files, KUBELET_FILES.servingKey),
  };
}
