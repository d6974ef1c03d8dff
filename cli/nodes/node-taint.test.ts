import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { RecordingHost } from '../host/fake-host.ts';
import { runTaint } from './index.ts';
import { createStatefulCluster } from './removal/fake-stateful-cluster.ts';

const asked = { dryRun: false, yes: false };
const EVICTING = ['spot=a:NoExecute'];
const EVICTED =
  'pods that do not tolerate spot=a:NoExecute are evicted, without regard to disruption budgets: default/on-n4';

let living: Awaited<ReturnType<typeof createStatefulCluster>>;
beforeEach(async () => {
  living = await createStatefulCluster();
});
afterEach(async () => {
  await living[Symbol.asyncDispose]();
});

const taints = (): readonly string[] | undefined =>
  living.cluster.state.nodes.find(({ name }) => name === 'n4')?.taints.map(({ key }) => key);

describe('node taint with NoExecute', () => {
  test('is refused without a terminal, and names the pods that would be evicted and what they lose', async () => {
    living.cluster.state.podKinds = { n4: 'with-data' };
    await expect(runTaint(living.program(Infinity), 'n4', EVICTING, asked)).rejects.toMatchObject({
      code: 'loss-not-confirmed',
      details: { losses: [EVICTED, 'the data in the emptyDir volumes of default/on-n4'] },
    });
    expect(taints()).toEqual([]);
    await runTaint(living.program(Infinity), 'n4', EVICTING, { ...asked, yes: true });
    expect(taints()).toEqual(['spot']);
  });

  test('asks at a terminal, and taints the node only after a yes', async () => {
    const at = (answer: boolean) => ({
      ...living.program(Infinity),
      host: new RecordingHost({ answer: () => answer }),
    });
    await expect(runTaint(at(false), 'n4', EVICTING, asked)).rejects.toMatchObject({ code: 'loss-declined' });
    expect(taints()).toEqual([]);
    await runTaint(at(true), 'n4', EVICTING, asked);
    expect(taints()).toEqual(['spot']);
  });

  test('asks nothing if every pod tolerates the taint', async () => {
    living.cluster.state.tolerations = { n4: [{ key: 'spot', operator: 'Exists' }] };
    await runTaint(living.program(Infinity), 'n4', EVICTING, asked);
    expect(taints()).toEqual(['spot']);
  });
});

describe('node taint', () => {
  test.each([['dedicated=gpu:NoSchedule'], ['dedicated:PreferNoSchedule'], ['spot:NoExecute-']])(
    'asks nothing if no pod is evicted: %s',
    async (change) => {
      const program = living.program(Infinity);
      await runTaint(program, 'n4', [change], asked);
      expect(program.host.answered).toMatchObject({ node: 'n4' });
    },
  );
});
