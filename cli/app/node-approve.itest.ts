import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { createCliHarness, type CliHarness } from './fake-cli.ts';

/** What the curator is asked, without the idempotency key. */
interface Asked {
  readonly join: string;
  readonly decision: unknown;
}

let cli: CliHarness;
let cluster: Awaited<ReturnType<typeof createCuratorHarness>>;
let asked: Asked[];
beforeEach(async () => {
  cli = await createCliHarness();
  asked = [];
  cluster = await createCuratorHarness(
    {},
    {
      listJoins: async () => ({ joins: [], dropped: 0n }),
      decideJoin: async ({ join, decision }) => {
        asked.push({ join, decision });
        return {};
      },
    },
  );
  await cli.copy(cluster.files, '/owner', 'owner');
});
afterEach(async () => {
  await cluster[Symbol.asyncDispose]();
  await cli[Symbol.asyncDispose]();
});

const approve = (...flags: readonly string[]) =>
  cli.run(['-w', 'owner', 'node', 'approve', 'join-1', ...flags]);

test('node approve sends the labels and taints of its flags', async () => {
  const labels = ['--label', 'rack=r7', '--label', 'zone=a'];
  const taints = ['--taint', 'dedicated=gpu:NoSchedule', '--taint', 'spare:PreferNoSchedule'];
  const { code, err } = await approve('--name', 'w-9', ...labels, ...taints);
  expect({ code, err }).toMatchObject({ code: 0 });
  expect(asked).toEqual([
    {
      join: 'join-1',
      decision: {
        case: 'approve',
        value: expect.objectContaining({
          name: 'w-9',
          labels: { rack: 'r7', zone: 'a' },
          taints: [
            expect.objectContaining({ key: 'dedicated', value: 'gpu', effect: 'NoSchedule' }),
            expect.objectContaining({ key: 'spare', value: '', effect: 'PreferNoSchedule' }),
          ],
        }),
      },
    },
  ]);
});

test('node approve without these flags sends no label and no taint', async () => {
  expect(await approve()).toMatchObject({ code: 0 });
  expect(asked).toMatchObject([{ decision: { value: { labels: {}, taints: [] } } }]);
});
