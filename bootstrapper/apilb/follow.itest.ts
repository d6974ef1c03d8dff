import { expect, test } from '@jest/globals';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { findFreePort } from '../../internal/testing/free-port.ts';
import { temporaryFolder } from '../../internal/testing/temporary-folder.ts';

const PROGRAM = join(import.meta.dirname, 'main.ts');

test('a list that is written while the balancer still reads the one before is not missed', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'config.json');
  const port = await findFreePort();
  const listing = (upstream: number): string =>
    JSON.stringify({
      listen: { host: '127.0.0.1', port },
      upstreams: [{ host: '127.0.0.1', port: upstream }],
    });
  // Whoever reads a pipe waits for who writes: so the moment between opening and reading is as long as we like.
  execFileSync('mkfifo', [path]);
  const balancer = spawn(process.execPath, ['--no-warnings', PROGRAM, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const followed = saidBy(balancer.stdout, /following a new list .*"port":2/);
    await using pipe = await open(path, 'w');
    await writeFile(`${path}.new`, listing(2));
    await rename(`${path}.new`, path);
    await pipe.writeFile(listing(1));
    await pipe.close();
    expect(await followed).toMatch(/listening.*"port":1/);
  } finally {
    const ended = once(balancer, 'exit');
    balancer.kill();
    await ended;
  }
});

/** All that was said until it was this. */
async function saidBy(stream: AsyncIterable<Buffer>, what: RegExp): Promise<string> {
  let text = '';
  for await (const piece of stream) {
    text += piece.toString();
    if (what.test(text)) return text;
  }
  throw new Error(`it ended before it said ${what}: ${text}`);
}
