import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createHarness, type Harness } from './harness.ts';

interface UpResult {
  readonly unchanged: boolean;
  readonly address: string;
  readonly demo: { readonly url: string; readonly answer: string };
}

await test('mini up creates two working clusters side by side, and mini down removes them', async () => {
  await using bench = await createHarness();
  const before = await bench.facts();

  const one = await up(bench, 'one');
  assert.equal(one.unchanged, false);
  assert.match(one.demo.answer, /pod=hello-.* node=n1 /);
  assert.match(await nodes(bench, 'one'), /^n1 +Ready +control-plane/);

  // The same command again changes nothing and reports that.
  const again = await up(bench, 'one');
  assert.equal(again.unchanged, true);

  // A second cluster on the same host has the same node names, ports and pod network, and does not affect the
  // first.
  const two = await up(bench, 'two');
  assert.notEqual(two.address, one.address);
  assert.match(await nodes(bench, 'two'), /^n1 +Ready/);
  assert.match(await ask(one.demo.url, 5), /node=n1/);
  const numbers = [(await bench.cluster('one')).network.number, (await bench.cluster('two')).network.number];
  const during = bench.changes(before, await bench.facts(), numbers);
  assert.deepEqual(
    during.filter((line) => /firewall|sysctls/.test(line)),
    [],
    'Kubernetes on the machines changes neither firewall nor tunables of the host',
  );

  // After a power cut the cluster recovers by itself.
  await bench.must('mini', 'stop', '--power-cut', '--name', 'one', 'n1');
  assert.match(await ask(two.demo.url, 5), /node=n1/);
  await bench.must('mini', 'start', '--name', 'one', 'n1');
  assert.match(await ask(one.demo.url, 180), /node=n1/);

  await bench.must('mini', 'down', '--name', 'one');
  assert.match(await ask(two.demo.url, 5), /node=n1/);
  await bench.must('mini', 'down', '--name', 'two');
  assert.deepEqual(bench.changes(before, await bench.facts(), numbers), []);
});

async function up(bench: Harness, name: string): Promise<UpResult> {
  const said = await bench.must('mini', 'up', '--demo', '--name', name, '--output', 'json');
  const records = said
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { readonly type: string; readonly data: unknown });
  const result = records.find(({ type }) => type === 'result');
  assert.ok(result, said);
  return result.data as UpResult;
}

function nodes(bench: Harness, name: string): Promise<string> {
  return bench.must('mini', 'exec', '--name', name, 'n1', '--', 'kubectl', 'get', 'nodes', '--no-headers');
}

/** Calls the sample chart until it responds, for at most this many seconds. */
async function ask(url: string, withinSeconds: number): Promise<string> {
  const deadline = Date.now() + withinSeconds * 1000;
  for (;;) {
    try {
      const response = await fetch(url, { signal: AbortSignal.timeout(4000) });
      return await response.text();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await delay(500);
    }
  }
}
