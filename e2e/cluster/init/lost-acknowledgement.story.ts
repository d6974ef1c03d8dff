import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { hostAddress } from '../../../internal/localmachines/index.ts';
import { createHarness } from '../../machines/harness.ts';
import { InitRun } from './init-run.ts';
import { WatchedMachine } from './watched-machine.ts';
import { eventually } from '../harness/node-shell.ts';
import { FaultyConnection } from './faulty-connection.ts';

/** How long the CLI waits for a response of the machine. After this time, the CLI sends the acknowledgement to a curator instead. */
const MACHINE_MS = 15_000;

await test('an owner acknowledges the init at a curator when the machine does not respond', async (story) => {
  await using bench = await createHarness();
  const machine = await WatchedMachine.create(bench, 'unheard');
  const { network } = await bench.cluster('unheard');
  await using cable = await FaultyConnection.open(hostAddress(network), {
    host: machine.address,
    port: 9000,
  });
  const init = machine.init(cable.endpoint);
  const state = (path: string): Promise<string> => readFile(machine.state(path), 'utf8').catch(() => '');

  await story.test(
    'the CLI is killed after it stored the result of the init, before it acknowledged the init',
    async () => {
      const cli = new InitRun(bench, init);
      const stage = async (): Promise<string | undefined> =>
        /"stage":\s*"([a-z]+)"/.exec(
          await readFile(join(machine.workspace, 'state.json'), 'utf8').catch(() => ''),
        )?.[1];
      // This state lasts long enough to be seen, because the handshake after it needs a TPM signature.
      while ((await stage()) !== 'granted' && !cli.over) await delay(1);
      await cli.kill();
      assert.equal(await stage(), 'granted', cli.said());
      assert.equal(await state('init/acknowledged.json'), '');
      assert.doesNotMatch(await state('init/request.json'), /"clusterUnlockKeyHex":\s*""/);
    },
  );

  await story.test(
    'with a dead connection to the machine, the same command acknowledges at a curator and succeeds',
    async (step) => {
      cable.setSilent(true);
      cable.reset();
      const cli = new InitRun(bench, init);
      assert.equal(await cli.ended, 0, cli.said());
      const [told] = cli.lines.filter(
        ({ type, code }) => type === 'step-finished' && code === 'init-acknowledge',
      );
      const { durationMs } = told as unknown as { readonly durationMs: number };
      step.diagnostic(`${Math.round(durationMs / 1000)} s`);
      assert.ok(durationMs > MACHINE_MS, 'the CLI first waited for the machine');
      assert.match(await bench.must('--workspace', machine.workspace, 'audit', 'ls'), /PutOwnership/);
    },
  );

  await story.test(
    'the machine learns of the acknowledgement, deletes the secret for disk shares from its request and closes its init port',
    async () => {
      const isWiped = async (): Promise<boolean> =>
        /"clusterUnlockKeyHex":\s*""/.test(await state('init/request.json'));
      await eventually('the secret is gone from the request', 120, isWiped, (wiped) => wiped);
      const port = () => machine.node.run('sh', '-c', 'ss -Hltn "sport = :9000" | wc -l');
      await eventually('the Init port is closed', 30, port, (listeners) => listeners.trim() === '0');
    },
  );

  await story.test('machines join, because they see the signature of the owner', async () => {
    await bench.must('mini', 'up', '--name', 'unheard', '--workers', '1');
    const table = await bench.must('--workspace', machine.workspace, 'node', 'ls');
    assert.match(table, /^n2 +(?!New|Standby)/m);
  });
});
