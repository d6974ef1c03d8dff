import { describe, expect, test } from '@jest/globals';
import type { FilePort } from '../../internal/file/index.ts';
import { createCertificateRequest, generateKeyPem } from '../../internal/pki/index.ts';
import { createMemoryLogger, everyFault, FakeClock, MemoryFiles } from '../../internal/testing/index.ts';
import { NodeLock } from '../nodelock/index.ts';
import { FileEventStore, PhaseLog } from '../phases/index.ts';
import { InitJob, type InitJobPorts, type InitOutcome, type InitRecord } from './init-job.ts';
import type { InitSpec } from './init-spec.ts';

const never = new AbortController().signal;
const spec: InitSpec = {
  clusterName: 'blue',
  clusterId: 'a'.repeat(32),
  kubernetesVersion: 'v1.35.4',
  bundleManifest: '{}',
  podSubnet: '198.19.0.0/17',
  serviceSubnet: '198.19.128.0/20',
  apiServerSans: [],
  nodeName: 'n1',
  singleNode: true,
  kubernetesAdminCsrBase64: 'AA==',
  ownerCsrBase64: 'AA==',
  clusterUnlockKeyHex: '5e'.repeat(32),
  configuration: '{}',
};
const request: InitRecord = { initId: 'one', spec };
const outcome = { clusterId: spec.clusterId, epoch: 1 } as InitOutcome;

const silent: InitJobPorts['phases'] = {
  after: () => [],
  run: (_, work) => work({ report: () => undefined, reportUnchanged: () => undefined }),
};

function createJob(
  files: FilePort,
  preflight: () => Promise<void> = () => Promise.resolve(),
  phases: InitJobPorts['phases'] = silent,
): InitJob {
  const lock = new NodeLock({ files, path: '/enrolment/lock.json', nowMs: () => 0 });
  return new InitJob({ files, lock, phases, preflight, ownAddress: () => '198.18.0.11' }, '/init');
}

async function createFiles(): Promise<MemoryFiles> {
  const files = new MemoryFiles();
  await files.makeDirectory('/enrolment');
  return files;
}

describe('InitJob', () => {
  test('accepts the same request repeatedly, at once or later', async () => {
    const job = createJob(await createFiles());
    await Promise.all([job.accept(request, never), job.accept(request, never)]);
    await job.accept({ ...request }, never);
    expect(job.accepted.peek()).toMatchObject({ set: true, value: { initId: 'one' } });
  });

  test('accept() refuses a second init and names the cluster that the machine belongs to', async () => {
    const files = await createFiles();
    await createJob(files).accept(request, never);
    for (const job of [createJob(files), createJob(files)]) {
      await job.restore();
      const second = job.accept({ initId: 'two', spec: { ...spec, clusterId: 'b'.repeat(32) } }, never);
      await expect(second).rejects.toMatchObject({
        code: 'initserver-other-cluster',
        details: { clusterId: spec.clusterId },
      });
    }
  });

  test('accept() refuses a request with the same id and another specification', async () => {
    const job = createJob(await createFiles());
    await job.accept(request, never);
    await expect(
      job.accept({ ...request, spec: { ...spec, podSubnet: '10.0.0.0/16' } }, never),
    ).rejects.toMatchObject({ code: 'initserver-spec-changed' });
  });

  test('accept() treats a request for the same key with a new signature as a repetition, and refuses one for another key', async () => {
    const key = generateKeyPem();
    const signed = async (by: typeof key): Promise<string> =>
      Buffer.from(await createCertificateRequest(by, 'kubernetes-admin')).toString('base64');
    const requestFor = async (by: typeof key): Promise<InitRecord> => ({
      ...request,
      spec: { ...spec, kubernetesAdminCsrBase64: await signed(by) },
    });
    const job = createJob(await createFiles());
    await job.accept(await requestFor(key), never);
    await job.accept(await requestFor(key), never);
    await expect(job.accept(await requestFor(generateKeyPem()), never)).rejects.toMatchObject({
      code: 'initserver-spec-changed',
    });
  });

  test('a preflight check that fails leaves the machine unlocked', async () => {
    const files = await createFiles();
    const failing = createJob(files, () => Promise.reject(new Error('swap is on'))).accept(request, never);
    await expect(failing).rejects.toThrow('swap is on');
    expect(await files.stat('/enrolment/lock.json')).toBeUndefined();
    await createJob(files).accept({ ...request, initId: 'another' }, never);
  });

  test.each([
    { name: 'a join locks the node first', isSameRun: true },
    { name: 'the agent crashed before the init locked the node, and a join locked it', isSameRun: false },
  ])('deletes its stored request with the secret for disk shares if $name', async ({ isSameRun }) => {
    const files = await createFiles();
    const lock = new NodeLock({ files, path: '/enrolment/lock.json', nowMs: () => 0 });
    const ticket = { clusterId: 'b'.repeat(32), by: 'join', id: 'ticket' } as const;
    if (isSameRun) {
      const phases: InitJobPorts['phases'] = {
        ...silent,
        run: async (phase, work) => {
          if (phase === 'lock') await lock.acquire(ticket);
          return silent.run(phase, work);
        },
      };
      await expect(createJob(files, undefined, phases).accept(request, never)).rejects.toMatchObject({
        code: 'initserver-other-cluster',
        details: { clusterId: ticket.clusterId },
      });
    } else {
      await files.makeDirectory('/init');
      await files.writeAtomic('/init/request.json', 'of an earlier life');
      await lock.acquire(ticket);
      await createJob(files).restore();
    }
    expect(await files.list('/init')).toEqual([]);
    expect(await lock.read()).toMatchObject(ticket);
  });

  test('of two inits at the same instant one wins and the other is refused', async () => {
    const job = createJob(await createFiles());
    const outcomes = await Promise.allSettled([
      job.accept(request, never),
      job.accept({ ...request, initId: 'two' }, never),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
  });

  test('restore() records once that the node lock was taken if a crash lost this event', async () => {
    const files = await createFiles();
    await createJob(files).accept(request, never);
    const life = async (): Promise<readonly string[]> => {
      const store = new FileEventStore(files, '/events');
      const phases = await PhaseLog.open({ store, clock: new FakeClock(), log: createMemoryLogger().log });
      await createJob(files, undefined, phases).restore();
      return phases.after(0).map(({ event }) => `${event.phase} ${event.kind}`);
    };
    expect(await life()).toEqual(['lock started', 'lock finished']);
    expect(await life()).toEqual(['lock started', 'lock finished']);
  });

  test('isInProgress() is true from acceptance to result, even after a restart, and false afterwards', async () => {
    const files = await createFiles();
    const job = createJob(files);
    const seen = [job.isInProgress()];
    await job.accept(request, never);
    seen.push(job.isInProgress());
    const interrupted = createJob(files);
    await interrupted.restore();
    seen.push(interrupted.isInProgress());
    await interrupted.finish(outcome);
    seen.push(interrupted.isInProgress());
    const next = createJob(files);
    await next.restore();
    expect([...seen, next.isInProgress()]).toEqual([false, true, true, false, false]);
  });

  test('acknowledge() deletes the secret for disk shares from the request, and the owner can still repeat the request', async () => {
    const files = await createFiles();
    const job = createJob(files);
    await job.accept(request, never);
    await job.finish(outcome);
    await job.acknowledge('c2ln');
    expect(Buffer.from((await files.read('/init/request.json', 1e6)) ?? []).toString()).not.toContain('5e5e');
    const next = createJob(files);
    await next.restore();
    await next.accept(request, never);
    expect([next.outcome.peek(), next.acknowledged.peek()]).toEqual([
      { set: true, value: outcome },
      { set: true, value: { ownershipSignatureBase64: 'c2ln' } },
    ]);
  });

  test('acknowledge() deletes the keys of a restored cluster, and the owner can still repeat the request', async () => {
    const files = await createFiles();
    const job = createJob(files);
    const snapshots = { stateSnapshotSha256: 'a'.repeat(64), kubernetesSnapshotSha256: 'b'.repeat(64) };
    const restore = { epoch: 2, ...snapshots, sharedKeys: { 'cluster-ca.key': 'THE-KEY' } };
    const restoring = { ...request, spec: { ...spec, restore } };
    await job.accept(restoring, never);
    await job.finish(outcome);
    await job.acknowledge('c2ln');
    expect(Buffer.from((await files.read('/init/request.json', 1e6)) ?? []).toString()).not.toContain(
      'THE-KEY',
    );
    const next = createJob(files);
    await next.restore();
    await next.accept(restoring, never);
    const knownMachines = [{ identity: 'tpm-ek:0a', nodeId: 'node-1', name: 'n5' }];
    await next.accept({ ...restoring, spec: { ...spec, restore: { ...restore, knownMachines } } }, never);
    const other = { ...restoring, spec: { ...spec, restore: { ...restore, epoch: 3 } } };
    await expect(next.accept(other, never)).rejects.toMatchObject({ code: 'initserver-spec-changed' });
  });

  test('after a crash at any write of acknowledge(), the request on disk has no secret for disk shares if the acknowledgement was saved', async () => {
    const counted: boolean[] = [];
    for await (const { disk } of everyFault({
      faults: ['crash-before', 'crash-after', 'no-space'],
      prepare: async (files) => {
        await files.makeDirectory('/enrolment');
        const job = createJob(files);
        await job.accept(request, never);
        await job.finish(outcome);
      },
      run: async (files) => {
        const job = createJob(files);
        await job.restore();
        await job.acknowledge('c2ln');
      },
    })) {
      const next = createJob(disk);
      await next.restore();
      const text = Buffer.from((await disk.read('/init/request.json', 1e6)) ?? []).toString();
      const counts = next.acknowledged.peek().set;
      counted.push(counts);
      expect(text.includes('5e5e')).toBe(!counts);
    }
    expect(new Set(counted)).toEqual(new Set([true, false]));
  });

  test('after a crash at any write the machine is either unlocked or bound to this request', async () => {
    let cases = 0;
    const run = async (files: FilePort): Promise<void> => {
      const job = createJob(files);
      await job.accept(request, never);
      await job.finish(outcome);
    };
    for await (const { disk } of everyFault({
      faults: ['crash-before', 'crash-after', 'no-space'],
      prepare: (files) => files.makeDirectory('/enrolment'),
      run,
    })) {
      const next = createJob(disk);
      await next.restore();
      const locked = (await disk.stat('/enrolment/lock.json')) !== undefined;
      expect(next.accepted.peek().set).toBe(locked);
      await next.accept(request, never);
      await next.finish(outcome);
      expect(next.outcome.peek()).toEqual({ set: true, value: outcome });
      cases++;
    }
    expect(cases).toBeGreaterThanOrEqual(9);
  });

  test.each(
    ['request.json', 'outcome.json', 'acknowledged.json'].flatMap((name) => [
      { name, how: 'cut', damage: (text: string) => text.slice(0, text.length / 2) },
      { name, how: 'empty', damage: () => '' },
      {
        name,
        how: 'with one other letter',
        damage: (text: string) => text.replace(/[a-z](?=[^a-z]+$)/, '~'),
      },
    ]),
  )(
    'refuses a $name that is $how with an error that names it, does not resume, and changes nothing',
    async ({ name, damage }) => {
      const files = await createFiles();
      const job = createJob(files);
      await job.accept(request, never);
      await job.finish(outcome);
      await job.acknowledge('c2ln');
      const damaged = damage(Buffer.from((await files.read(`/init/${name}`, 1e6)) ?? []).toString());
      await files.writeAtomic(`/init/${name}`, damaged);
      const next = createJob(files);
      await expect(next.restore()).rejects.toMatchObject({
        code: 'initserver-record-damaged',
        details: { path: `/init/${name}` },
      });
      expect([next.restored.peek().set, next.accepted.peek().set]).toEqual([false, false]);
      expect(Buffer.from((await files.read(`/init/${name}`, 1e6)) ?? []).toString()).toBe(damaged);
    },
  );
});
