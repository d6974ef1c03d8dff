import { expect, test } from '@jest/globals';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, rename, writeFile } from 'node:fs/promises';
import { connect, createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { findFreePort } from '../../internal/testing/network/free-port.ts';
import { temporaryDirectory } from '../../internal/testing/host/temporary-directory.ts';

const PROGRAM = join(import.meta.dirname, 'main.ts');

test('apilb applies a configuration that is written while it reads the previous one', async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, 'config.json');
  const port = await findFreePort();
  const listing = (upstream: number): string =>
    JSON.stringify({
      listen: { host: '127.0.0.1', port },
      upstreams: [{ host: '127.0.0.1', port: upstream }],
    });
  // Reading from a named pipe blocks until a writer opens it, so the test decides when apilb reads the
  // configuration.
  execFileSync('mkfifo', [path]);
  const balancer = spawn(process.execPath, ['--no-warnings', PROGRAM, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const followed = saidBy(balancer.stdout, /using a new list .*"port":2/);
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

test('apilb keeps running after its log is closed', async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, 'config.json');
  const port = await findFreePort();
  const follow = async (upstream: number): Promise<void> => {
    const listing = {
      listen: { host: '127.0.0.1', port },
      upstreams: [{ host: '127.0.0.1', port: upstream }],
    };
    await writeFile(`${path}.new`, JSON.stringify(listing));
    await rename(`${path}.new`, path);
  };
  await follow(1);
  const balancer = spawn(process.execPath, ['--no-warnings', PROGRAM, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(balancer, 'exit');
  try {
    await saidBy(balancer.stdout, /listening/); // leaving the loop closes the pipe
    for (const name of ['first', 'second', 'third']) {
      await using server = await serveName(name);
      await follow(server.port);
      expect(await answerOf(port, name)).toBe(name);
    }
  } finally {
    balancer.kill();
  }
  expect(await ended).toEqual([0, null]);
});

/** A server that sends its name and closes the connection. */
async function serveName(name: string): Promise<{ readonly port: number } & AsyncDisposable> {
  const server = createServer((socket) => socket.end(name)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      server.close();
      await once(server, 'close');
    },
  };
}

/**
 * Connects to the port repeatedly until the answer is `wanted` or no server listens. Returns the last answer.
 */
async function answerOf(port: number, wanted: string): Promise<string> {
  const signal = AbortSignal.timeout(10_000);
  for (let answer = ''; ;) {
    const socket = connect({ host: '127.0.0.1', port });
    try {
      for await (const piece of socket) answer += String(piece);
      if (answer === wanted || signal.aborted) return answer;
      answer = '';
    } finally {
      socket.destroy();
    }
  }
}

/** Reads the stream until its text matches `what`. Returns the text. */
async function saidBy(stream: AsyncIterable<Buffer>, what: RegExp): Promise<string> {
  let text = '';
  for await (const piece of stream) {
    text += piece.toString();
    if (what.test(text)) return text;
  }
  throw new Error(`it ended before it said ${what}: ${text}`);
}
