import { describe, expect, test } from '@jest/globals';
import { createMemoryLogger } from '../../internal/testing/memory-logger.ts';
import { untilAborted } from '../../internal/cleanup/index.ts';
import { MemoryFiles } from '../../internal/testing/host/memory-files.ts';
import { Enrolment } from './enrolment.ts';
import type { Membership } from '../membership/index.ts';
import { InitJob, type InitOutcome, type InitRecord } from '../initserver/index.ts';
import { CONTROL_PLANE_KEY_FILES } from '../kubernetes/index.ts';
import { NodeLock } from '../nodelock/index.ts';
import { NodeMembership, RoleValueStore } from '../roleserve/index.ts';
import { createEnrolmentHandlers } from './enrolment-handlers.ts';
import { AGENT_PATHS, createNodeState } from '../nodestate/index.ts';

const never = new AbortController().signal;
const clusterId = 'a'.repeat(32);
const membership: Membership = {
  clusterId,
  clusterName: 'blue',
  nodeId: 'node-1',
  nodeName: 'n1',
  nodeAddress: '198.18.0.11',
  nodeCertPem: 'cert',
  clusterCaPem: 'ca',
  epoch: 1,
  directory: [{ nodeId: 'node-1', host: '198.18.0.11' }],
};
const settings = {
  clusterName: 'blue',
  kubernetesVersion: 'v1.35.4',
  podSubnet: '',
  serviceSubnet: '',
  apiServerSans: [],
  bundleManifest: '',
};
const request = {
  initId: 'one',
  spec: {
    ...{ clusterId, configuration: '', serviceSubnet: '198.19.128.0/20' },
    clusterUnlockKeyHex: '5e'.repeat(32),
  },
} as InitRecord;

/** A join client of a machine that knows no endpoint. */
const nobodyAsked = {
  admit: untilAborted,
  requestTicket: () => Promise.reject(new Error('nobody admitted this machine')),
  reportJoined: () => undefined,
};

/** A machine with its disk, and functions that prepare files and run its enrolment. */
async function createMachine() {
  const files = new MemoryFiles();
  for (const directory of [AGENT_PATHS.enrolment, AGENT_PATHS.init]) await files.makeDirectory(directory);
  const lock = new NodeLock({ files, path: AGENT_PATHS.lock, nowMs: () => 0 });
  const phases = {
    after: () => [],
    run: <T>(_: string, work: (progress: { report(): void; reportUnchanged(): void }) => Promise<T>) =>
      work({ report: () => undefined, reportUnchanged: () => undefined }),
  };
  const state = createNodeState(files);
  const createJob = (): InitJob =>
    new InitJob(
      { files, lock, phases, preflight: () => Promise.resolve(), ownAddress: () => '198.18.0.11' },
      AGENT_PATHS.init,
    );
  const enrol = async () => {
    const store = new RoleValueStore();
    const { values } = store;
    const node = new NodeMembership(store);
    const job = createJob();
    const handlers = createEnrolmentHandlers({
      ...{
        files,
        lock,
        job,
        state,
        node,
        clusterMembership: values.clusterMembership,
        joinClient: nobodyAsked,
        log: createMemoryLogger().log,
      },
      ownAddress: () => '198.18.0.11',
      ensureValidCertificates: (known) => Promise.resolve(known),
    });
    const enrolment = new Enrolment<Membership>({ handlers, log: createMemoryLogger().log });
    const running = enrolment.run(never);
    return { values, node, job, enrolment, running };
  };
  /** Writes the files of an init that has created the membership, or that also has its result. */
  const saveMember = async (reached: 'membership' | 'result' = 'result'): Promise<void> => {
    const job = createJob();
    await job.accept(request, never);
    if (reached === 'result') await job.finish({ clusterId, epoch: 1 } as InitOutcome);
    await state.settings.save(settings);
    await state.roles.save(['ConsensusMember']);
    await state.membership.save(membership);
    await files.makeDirectory(AGENT_PATHS.etcdData);
    for (const path of Object.values(CONTROL_PLANE_KEY_FILES)) {
      if (reached === 'membership' && !path.startsWith(AGENT_PATHS.state)) continue;
      await files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
      await files.writeAtomic(path, 'a key');
    }
  };
  return { files, lock, state, enrol, saveMember };
}

describe('enrolment on a machine', () => {
  test('a member resumes from its disk and calls no join service', async () => {
    const machine = await createMachine();
    await machine.saveMember();
    const { enrolment, values } = await machine.enrol();
    expect(await enrolment.finished(never)).toEqual(membership);
    expect(values.localRoles.peek()).toEqual({ set: true, value: new Set(['ConsensusMember']) });
    expect(values.clusterSettings.peek()).toEqual({ set: true, value: settings });
  });

  test('a member whose init has no result yet resumes without the keys that it creates later', async () => {
    const machine = await createMachine();
    await machine.saveMember('membership');
    expect(await (await machine.enrol()).enrolment.finished(never)).toEqual(membership);
  });

  test('a member that has lost the control-plane role resumes without the shared keys', async () => {
    const machine = await createMachine();
    await machine.saveMember();
    await machine.state.roles.save(['KubernetesWorker']);
    for (const path of Object.values(CONTROL_PLANE_KEY_FILES)) await machine.files.remove(path);
    expect(await (await machine.enrol()).enrolment.finished(never)).toEqual(membership);
  });

  test('an accepted init becomes bootstrap data, even after a restart of the agent', async () => {
    const machine = await createMachine();
    const first = await machine.enrol();
    await first.job.accept(request, never);
    const { values, node, enrolment } = await machine.enrol();
    node.created({ membership, roles: new Set() });
    expect(await enrolment.finished(never)).toEqual(membership);
    expect(values.bootstrapData.peek()).toMatchObject({ set: true, value: { initId: 'one' } });
    const secret = await machine.files.read(AGENT_PATHS.diskShares, 100);
    expect(Buffer.from(secret ?? []).toString()).toBe('5e'.repeat(32));
  });

  const refusals: {
    name: string;
    code: string;
    path: string;
    break: (machine: Awaited<ReturnType<typeof createMachine>>) => Promise<unknown>;
  }[] = [
    {
      name: 'etcd data but neither membership nor lock',
      code: 'enrolment-files-missing',
      path: AGENT_PATHS.membership,
      break: ({ files }) => files.makeDirectory(AGENT_PATHS.etcdData),
    },
    {
      name: 'a lock of init, but not the file of its request',
      code: 'enrolment-files-missing',
      path: `${AGENT_PATHS.init}/request.json`,
      break: ({ lock }) => lock.acquire({ clusterId, by: 'init', id: 'one' }),
    },
    {
      name: 'a damaged lock',
      code: 'nodelock-damaged',
      path: AGENT_PATHS.lock,
      break: ({ files }) => files.writeAtomic(AGENT_PATHS.lock, '{'),
    },
    {
      name: 'a damaged membership',
      code: 'membership-damaged',
      path: AGENT_PATHS.membership,
      break: async ({ files, saveMember }) => {
        await saveMember();
        await files.writeAtomic(AGENT_PATHS.membership, '{}');
      },
    },
    {
      name: 'a membership whose roles are missing',
      code: 'membership-damaged',
      path: AGENT_PATHS.roles,
      break: async ({ files, saveMember }) => {
        await saveMember();
        await files.remove(AGENT_PATHS.roles);
      },
    },
    {
      name: 'a membership whose lock is missing',
      code: 'enrolment-files-missing',
      path: AGENT_PATHS.lock,
      break: async ({ files, saveMember }) => {
        await saveMember();
        await files.remove(AGENT_PATHS.lock);
      },
    },
    {
      name: 'a membership of one cluster and a lock of another',
      code: 'enrolment-files-missing',
      path: AGENT_PATHS.lock,
      break: async ({ state, saveMember }) => {
        await saveMember();
        await state.membership.save({ ...membership, clusterId: 'b'.repeat(32) });
      },
    },
    {
      name: 'an init result but no membership',
      code: 'enrolment-files-missing',
      path: AGENT_PATHS.membership,
      break: async ({ files, saveMember }) => {
        await saveMember();
        await files.remove(AGENT_PATHS.membership);
      },
    },
    {
      name: 'a membership but no init request',
      code: 'enrolment-files-missing',
      path: `${AGENT_PATHS.init}/request.json`,
      break: async ({ files, saveMember }) => {
        await saveMember();
        await files.remove(AGENT_PATHS.init);
        await files.makeDirectory(AGENT_PATHS.init);
      },
    },
    ...Object.values(CONTROL_PLANE_KEY_FILES).map((path) => ({
      name: `etcd data without ${path}`,
      code: 'enrolment-keys-missing',
      path,
      break: async ({ files, saveMember }: Awaited<ReturnType<typeof createMachine>>) => {
        await saveMember();
        await files.remove(path);
      },
    })),
    {
      name: 'a damaged init result',
      code: 'initserver-record-damaged',
      path: `${AGENT_PATHS.init}/outcome.json`,
      break: async ({ files, saveMember }) => {
        await saveMember();
        await files.writeAtomic(`${AGENT_PATHS.init}/outcome.json`, '');
      },
    },
    {
      name: 'a damaged init request',
      code: 'initserver-record-damaged',
      path: `${AGENT_PATHS.init}/request.json`,
      break: async ({ files, lock }) => {
        await lock.acquire({ clusterId, by: 'init', id: 'one' });
        await files.writeAtomic(`${AGENT_PATHS.init}/request.json`, '{"initId":"o');
      },
    },
  ];
  test.each(refusals)(
    'with $name, the agent creates no second cluster, reports the path of the file and changes nothing',
    async ({ code, path, break: breakIt }) => {
      const machine = await createMachine();
      await breakIt(machine);
      const before = await snapshot(machine.files);
      const { enrolment, values } = await machine.enrol();
      await expect(enrolment.finished(never)).rejects.toMatchObject({
        code,
        retryable: false,
        details: { path },
      });
      expect(values.bootstrapData.peek()).toEqual({ set: true, value: undefined });
      expect(await snapshot(machine.files)).toEqual(before);
    },
  );
});

async function snapshot(
  files: MemoryFiles,
  directory = AGENT_PATHS.state as string,
): Promise<Record<string, string>> {
  const all: Record<string, string> = {};
  for (const name of await files.list(directory)) {
    const path = `${directory}/${name}`;
    const stat = await files.stat(path);
    if (stat?.kind === 'directory')
      Object.assign(all, { [path]: '<directory>' }, await snapshot(files, path));
    else all[path] = Buffer.from((await files.read(path, 1e6)) ?? []).toString();
  }
  return all;
}
