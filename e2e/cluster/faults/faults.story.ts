import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createHarness, type Harness } from '../../machines/harness.ts';
import { assertOneCluster } from '../init/assert-one-cluster.ts';
import { diagnose, seededRandom } from './diagnose.ts';
import { FAULTS } from './faults.ts';
import { InitRun } from '../init/init-run.ts';
import { WatchedMachine } from '../init/watched-machine.ts';

const random = seededRandom(Date.now());

await test('each fault of a machine has its own message, error code and exit code, and the same command succeeds after the fault is removed', async (story) => {
  await using bench = await createHarness();
  const machine = await WatchedMachine.create(bench, 'faulty', '--empty-store');
  const all = (stage: string) => FAULTS.filter((kind) => kind.stage === stage);

  for (const kind of all('fresh'))
    await story.test(kind.name, async (each) => {
      await assertNamed(each, bench, machine, kind);
      assert.equal(await machine.clusterId(), undefined, 'the machine belongs to no cluster');
    });

  // One init runs into each fault in turn and continues when the fault is removed.
  for (const kind of all('begun').filter(({ name }) => name !== 'an address that changes'))
    await story.test(kind.name, (each) => assertNamed(each, bench, machine, kind));

  await story.test('the same command succeeds when all faults are fixed', async () => {
    await assertOneCluster(bench, machine, await ended(bench, machine));
  });

  for (const kind of all('made'))
    await story.test(kind.name, async (each) => {
      await assertNamed(each, bench, machine, kind);
      const again = await ended(bench, machine);
      assert.equal(await again.ended, 0, again.said());
    });

  await story.test(
    "after a change of the machine's address the CLI reports it, and the same command then succeeds",
    async (each) => {
      await bench.must('mini', 'down', '--name', 'faulty');
      const [kind] = FAULTS.filter(({ name }) => name === 'an address that changes');
      assert.ok(kind);
      const mover = await WatchedMachine.create(bench, 'mover');
      await assertNamed(each, bench, mover, kind);
      await assertOneCluster(bench, mover, await ended(bench, mover));
    },
  );
});

async function assertNamed(
  story: TestContext,
  bench: Harness,
  machine: WatchedMachine,
  kind: (typeof FAULTS)[number],
): Promise<void> {
  const told = await diagnose(bench, machine, kind, random);
  story.diagnostic(`${told.what}\n    ${told.named} (${told.exit}): ${told.message}\n    fix: ${told.fix}`);
  assert.equal(told.named, kind.code, told.message);
  assert.equal(told.exit, kind.exit);
  assert.ok(told.right, told.message);
  const explained = await bench.must('help', 'errors', kind.code);
  assert.match(explained, new RegExp(`${kind.code} – exit code ${kind.exit}`));
  assert.match(explained, /fix: +\S/);
}

async function ended(bench: Harness, machine: WatchedMachine): Promise<InitRun> {
  const cli = new InitRun(bench, machine.init());
  await cli.ended;
  return cli;
}
