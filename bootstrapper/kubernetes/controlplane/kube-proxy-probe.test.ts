import { describe, expect, test } from '@jest/globals';
import {
  createControlPlane,
  never,
  placeAuthority,
  placeKubelet,
  placeSharedKeys,
  runAll,
} from '../fake-machine.ts';
import { StepCheckpoints } from '../step-checkpoints.ts';
import { addKubeProxyProbe } from './kube-proxy-probe.ts';

/** The answer of kubectl for a DaemonSet with these containers. */
const daemonSet = (...containers: readonly object[]): string =>
  JSON.stringify({ spec: { template: { spec: { containers } } } });

async function create(stored: { text: string }) {
  const bed = createControlPlane((argv) =>
    argv.includes('get') && argv.includes('daemonset') && argv.includes('json') ? stored.text : undefined,
  );
  const { commands, files } = bed;
  await files.makeDirectory('/var/lib/cluster/kubernetes');
  const add = () => addKubeProxyProbe({ commands, checkpoints: new StepCheckpoints(files) }, never);
  const patches = () => commands.runs.filter((argv) => argv.includes('patch'));
  return { bed, add, patches };
}

describe('addKubeProxyProbe()', () => {
  test('adds a probe to the container of kube-proxy once', async () => {
    const { add, patches } = await create({ text: daemonSet({ name: 'kube-proxy' }, { name: 'other' }) });
    await add();
    await add();
    expect(patches()).toHaveLength(1);
    const patch = JSON.parse(patches()[0]?.at(-1) ?? '{}') as Record<string, unknown>;
    expect(patch).toMatchObject({
      spec: {
        template: {
          spec: {
            containers: [{ name: 'kube-proxy', livenessProbe: { httpGet: { path: '/livez', port: 10256 } } }],
          },
        },
      },
    });
  });

  test.each([
    { name: 'no kube-proxy', text: '' },
    { name: 'a kube-proxy with a probe', text: daemonSet({ name: 'kube-proxy', livenessProbe: {} }) },
    { name: 'another program of this name', text: daemonSet({ name: 'other' }) },
  ])('leaves $name as it is', async ({ text }) => {
    const { add, patches } = await create({ text });
    await add();
    expect(patches()).toEqual([]);
  });

  test('looks again for a kube-proxy that the operators did not run', async () => {
    const stored = { text: '' };
    const { add, patches } = await create(stored);
    await add();
    stored.text = daemonSet({ name: 'kube-proxy' });
    await add();
    expect(patches()).toHaveLength(1);
  });

  test('the first control plane adds it after kubeadm, and a control plane of an earlier release at its next start', async () => {
    const first = await create({ text: daemonSet({ name: 'kube-proxy' }) });
    await placeAuthority(first.bed.files);
    await runAll(first.bed.create());
    const argv = first.bed.commands.runs;
    const at = (word: string) => argv.findIndex((each) => each.includes(word));
    expect([first.patches().length, at('patch') > argv.findIndex((each) => each.includes('addon'))]).toEqual([
      1,
      true,
    ]);
    const next = await create({ text: daemonSet({ name: 'kube-proxy' }) });
    await placeKubelet(next.bed.files);
    await placeSharedKeys(next.bed.files);
    await runAll(next.bed.create({}, false));
    expect(next.patches()).toHaveLength(0);
    await runAll(next.bed.create({}, false));
    expect(next.patches()).toHaveLength(1);
  });
});
