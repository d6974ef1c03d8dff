import { describe, expect, test } from '@jest/globals';
import { FakeClock, MemoryFiles } from '../../internal/testing/index.ts';
import type { HealthQuestion } from './api-probe.ts';
import { ControlPlaneHealth } from './control-plane-health.ts';

const signal = new AbortController().signal;

async function createHealth() {
  const files = new MemoryFiles();
  await files.makeDirectory('/etc/kubernetes/pki');
  await files.writeAtomic('/etc/kubernetes/pki/ca.crt', 'the CA');
  const clock = new FakeClock();
  const asked: string[] = [];
  const down = new Set<number>();
  const probe = ({ host, port, path, caPem }: HealthQuestion): Promise<void> => {
    asked.push(`${host}:${port}${path} ${caPem ?? 'of its own'}`);
    return down.has(port) ? Promise.reject(new Error('connection refused')) : Promise.resolve();
  };
  const health = new ControlPlaneHealth({ files, clock, probe });
  const look = async () =>
    Object.fromEntries(
      (await health.look('192.0.2.1', signal)).map(({ name, isReady, why }) => [
        name.slice(5),
        isReady ? 'ready' : why,
      ]),
    );
  return { files, clock, asked, down, health, look };
}

describe('the health of a control plane', () => {
  test('asks each part where it listens, the API server as the cluster knows it', async () => {
    const { asked, look } = await createHealth();
    expect(await look()).toEqual({ apiserver: 'ready', 'controller-manager': 'ready', scheduler: 'ready' });
    expect(asked.sort()).toEqual([
      '127.0.0.1:10257/healthz of its own',
      '127.0.0.1:10259/readyz of its own',
      '192.0.2.1:6443/readyz the CA',
    ]);
  });

  test('what has not answered yet is not ready, and says why', async () => {
    const { files, down, look } = await createHealth();
    down.add(10257);
    await files.remove('/etc/kubernetes/pki/ca.crt');
    expect(await look()).toEqual({
      apiserver: 'its certificates are not made yet',
      'controller-manager': 'connection refused',
      scheduler: 'ready',
    });
  });

  test('what was ready and does not answer once is busy, twice in a row it is not ready, and it is since then', async () => {
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
    expect(await health.look('192.0.2.1', signal)).toContainEqual({
      ...{ name: 'kube-apiserver', isReady: true, why: '' },
      sinceMs,
    });
  });

  test('a good answer holds for twenty seconds; what failed once is asked with the very next look', async () => {
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

  test('where no control plane is to run nobody is asked, and the next one begins anew', async () => {
    const { asked, down, health, look } = await createHealth();
    await look();
    asked.length = 0;
    expect([await health.look(undefined, signal), asked]).toEqual([[], []]);
    down.add(6443);
    expect(await look()).toMatchObject({ apiserver: 'connection refused' });
  });
});
