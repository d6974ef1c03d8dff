import { describe, expect, test } from '@jest/globals';
import { FakeUnits, MemoryFiles } from '../../internal/testing/index.ts';
import { isKubeletServingStale, markKubeletServing, restartKubeletServing } from './kubelet-serving.ts';
import { Marks } from './marks.ts';
import { KUBELET_FILES } from './material.ts';
import { KUBELET_UNIT } from './units.ts';

const never = new AbortController().signal;

async function createKubelet() {
  const files = new MemoryFiles();
  const units = new FakeUnits();
  const ports = { files, units, marks: new Marks(files) };
  await files.makeDirectory('/var/lib/cluster/kubernetes');
  await files.writeAtomic(KUBELET_FILES.servingCert, 'first');
  units.active.add(KUBELET_UNIT);
  await markKubeletServing(ports);
  return { files, units, ports };
}

describe('the serving certificate of a kubelet', () => {
  test('is not stale while the kubelet was started with it', async () => {
    const { ports } = await createKubelet();
    expect(await isKubeletServingStale(ports, never)).toBe(false);
  });

  test('is stale when it was renewed, until the kubelet has been restarted, also by another life of the agent', async () => {
    const { files, units, ports } = await createKubelet();
    await files.writeAtomic(KUBELET_FILES.servingCert, 'second');
    expect(await isKubeletServingStale({ ...ports, marks: new Marks(files) }, never)).toBe(true);
    await restartKubeletServing(ports, never);
    expect(units.moves).toEqual([`restart ${KUBELET_UNIT}`]);
    expect(await isKubeletServingStale(ports, never)).toBe(false);
  });

  test('is nobody’s business where no kubelet runs, or none has been given one', async () => {
    const { files, units, ports } = await createKubelet();
    await files.writeAtomic(KUBELET_FILES.servingCert, 'second');
    units.active.clear();
    expect(await isKubeletServingStale(ports, never)).toBe(false);
    units.active.add(KUBELET_UNIT);
    await files.remove(KUBELET_FILES.servingCert);
    expect(await isKubeletServingStale(ports, never)).toBe(false);
  });
});
