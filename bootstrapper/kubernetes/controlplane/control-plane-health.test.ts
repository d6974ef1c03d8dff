import { describe, expect, test } from '@jest/globals';
import { FakeClock, MemoryFiles } from '../../../internal/testing/index.ts';
import type { HealthRequest } from './api-probe.ts';
import { ControlPlaneHealth } from './control-plane-health.ts';

const signal = new AbortController().signal;
const WANTED = { nodeAddress: '192.0.2.1', hasRole: true };
const ADMIN = '/etc/kubernetes/admin.conf';
const MANIFEST = '/etc/kubernetes/manifests/kube-apiserver.yaml';

async function createHealth() {
  const files = new MemoryFiles();
  await files.makeDirectory('/etc/kubernetes/pki');
  await files.makeDirectory('/etc/kubernetes/manifests');
  await files.writeAtomic('/etc/kubernetes/pki/ca.crt', 'the CA');
  await files.writeAtomic(ADMIN, 'an administrator');
  await files.writeAtomic(MANIFEST, 'a static pod');
  const clock = new FakeClock();
  const asked: string[] = [];
  const down = new Set<number>();
  const now = {
    error: new Error('connection refused'),
    line: undefined as string | undefined,
    logs: [] as string[],
  };
  const probe = ({ host, port, path, caPem }: HealthRequest): Promise<void> => {
    asked.push(`${host}:${port}${path} ${caPem ?? 'of its own'}`);
    return down.has(port) ? Promise.reject(now.error) : Promise.resolve();
  };
  const lastError = async (name: string): Promise<string | undefined> => {
    now.logs.push(name);
    return now.line;
  };
  const health = new ControlPlaneHealth({ files, clock, probe, lastError });
  const look = async (hasRole = true) =>
    Object.fromEntries(
      (await health.check({ ...WANTED, hasRole }, signal)).map(({ name, isReady, why }) => [
        name.slice(5),
        isReady ? 'ready' : why,
      ]),
    );
  return { files, clock, asked, down, now, health, look };
}

describe('ControlPlaneHealth.check()', () => {
  test('probes each component at its own endpoint, and verifies the API server with the cluster CA', async () => {
    const { asked, look } = await createHealth();
    expect(await look()).toEqual({ apiserver: 'ready', 'controller-manager': 'ready', scheduler: 'ready' });
    expect(asked.sort()).toEqual([
      '127.0.0.1:10257/healthz of its own',
      '127.0.0.1:10259/readyz of its own',
      '192.0.2.1:6443/readyz the CA',
    ]);
  });

  test('reports a component that has never answered as not ready', async () => {
    const { files, down, look } = await createHealth();
    down.add(10257);
    await files.remove('/etc/kubernetes/pki/ca.crt');
    expect(await look()).toEqual({
      apiserver: 'its certificates do not exist yet',
      'controller-manager': 'connection refused',
      scheduler: 'ready',
    });
  });

  test('reports the last error in the log of a component that does not listen, and reads that log every 10 s', async () => {
    const { clock, down, now, look } = await createHealth();
    down.add(10257);
    now.line = 'unknown flag: --pod-eviction-timeout';
    expect(await look()).toMatchObject({ 'controller-manager': 'connection refused' });
    now.error = Object.assign(new Error('connection refused'), { code: 'ECONNREFUSED' });
    const want = 'does not listen: unknown flag: --pod-eviction-timeout (connection refused)';
    for (let second = 0; second < 10; second++) {
      expect(await look()).toMatchObject({ 'controller-manager': want, scheduler: 'ready' });
      await clock.advance(1_000);
    }
    expect(now.logs).toEqual(['kube-controller-manager']);
    now.line = undefined;
    expect(await look()).toMatchObject({ 'controller-manager': 'connection refused' });
  });

  test('reports a ready component as not ready only after two failed probes', async () => {
    const { clock, down, health, look } = await createHealth();
    await look();
    const seen: string[] = [];
    for (const isDown of [true, false, true, true, false]) {
      await clock.advance(20_000);
      if (isDown) down.add(6443);
      else down.delete(6443);
      seen.push((await look())['apiserver'] ?? '');
    }
    expect(seen).toEqual(['ready', 'ready', 'ready', 'connection refused', 'ready']);
    const sinceMs = clock.nowMs();
    await clock.advance(1_000);
    expect(await health.check(WANTED, signal)).toContainEqual({
      ...{ name: 'kube-apiserver', isReady: true, why: '' },
      sinceMs,
    });
  });

  test('probes a ready component every 20 s and a failed component at every call', async () => {
    const { asked, clock, down, look } = await createHealth();
    const apiServerAsked = () => asked.filter((each) => each.includes(':6443')).length;
    await look();
    await clock.advance(19_999);
    down.add(6443);
    expect([await look(), apiServerAsked()]).toMatchObject([{ apiserver: 'ready' }, 1]);
    await clock.advance(1);
    expect([await look(), apiServerAsked()]).toMatchObject([{ apiserver: 'ready' }, 2]);
    expect([await look(), apiServerAsked()]).toMatchObject([{ apiserver: 'connection refused' }, 3]);
  });

  test('probes at every call while the node gains or loses the control-plane role', async () => {
    const { files, asked, down, look } = await createHealth();
    await look();
    await files.remove(MANIFEST); // the node loses the role, and regains it before the component has stopped
    expect(await look()).toMatchObject({ apiserver: 'ready' });
    down.add(6443);
    expect(await look()).toMatchObject({ apiserver: 'connection refused' });
    down.clear();
    expect(await look()).toMatchObject({ apiserver: 'ready' });
    await files.writeAtomic(MANIFEST, 'a static pod');
    down.add(6443);
    await look();
    expect([await look(), asked.filter((each) => each.includes(':6443')).length]).toEqual([
      expect.objectContaining({ apiserver: 'connection refused' }),
      6,
    ]);
  });

  test('reports components until a demotion is complete, and none afterwards', async () => {
    const { files, asked, down, look } = await createHealth();
    await look();
    expect(await look(false)).toMatchObject({ apiserver: 'ready' });
    await files.remove(MANIFEST);
    down.add(6443);
    expect(await look(false)).toMatchObject({ apiserver: 'connection refused' });
    await files.remove(ADMIN);
    asked.length = 0;
    expect([await look(false), asked]).toEqual([{}, []]);
    expect(await look()).toMatchObject({ apiserver: 'connection refused' });
  });
});
