import { expect, test } from '@jest/globals';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { connect as connectLocal } from 'node:net';
import { join } from 'node:path';
import { connect, type TLSSocket } from 'node:tls';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
} from '../../internal/pki/index.ts';
import { findFreePort } from '../../internal/testing/network/free-port.ts';
import { freezeProcess } from '../../internal/testing/host/freeze-process.ts';
import { temporaryDirectory } from '../../internal/testing/host/temporary-directory.ts';

const PROGRAM = join(import.meta.dirname, 'main.ts');
/** Source of a server that answers `/readyz` like an API server, and any other request with its name. */
const SERVER = `
const [name, port, pem] = process.argv.slice(1);
require('node:https').createServer({ cert: require('node:fs').readFileSync(pem), key: require('node:fs').readFileSync(pem) },
  (request, response) => response.end(request.url === '/readyz' ? 'ok' : name),
).listen(port, '127.0.0.1', () => console.log('listening'));`;

test('apilb moves the clients of a server that SIGSTOP has stopped to another server within 5 s', async () => {
  await using directory = await temporaryDirectory();
  const caPem = await writeServerPem(join(directory.path, 'server.pem'));
  const [port, first, second] = [await findFreePort(), await findFreePort(), await findFreePort()];
  const children: ChildProcess[] = [];
  const start = async (args: readonly string[], said: RegExp): Promise<ChildProcess> => {
    const env = { ...process.env, RUNTIME_DIRECTORY: directory.path };
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'], env });
    children.push(child);
    let text = '';
    child.stdout?.on('data', (data: Buffer) => (text += data.toString()));
    while (!said.test(text)) await once(child.stdout, 'data');
    return child;
  };
  try {
    const pem = join(directory.path, 'server.pem');
    const hanging = await start(['-e', SERVER, 'first', String(first), pem], /listening/);
    await start(['-e', SERVER, 'second', String(second), pem], /listening/);
    const path = join(directory.path, 'config.json');
    const at = (each: number) => ({ host: '127.0.0.1', port: each });
    const health = { caPem };
    await writeFile(path, JSON.stringify({ listen: at(port), upstreams: [at(first), at(second)], health }));
    await start(['--no-warnings', PROGRAM, path], /listening/);

    const client = await dial(port, caPem);
    expect(await ask(client)).toMatch(/first$/);
    await freezeProcess(hanging.pid as number);
    const frozenMs = performance.now();
    await once(client, 'close');
    expect(performance.now() - frozenMs).toBeLessThan(5_000);
    const again = await dial(port, caPem);
    expect(await ask(again)).toMatch(/second$/);
    expect(performance.now() - frozenMs).toBeLessThan(5_000);
    again.destroy();
    expect(await told(join(directory.path, 'health.sock'))).toEqual(['silent', 'healthy']);

    hanging.kill('SIGCONT');
    while ((await told(join(directory.path, 'health.sock')))[0] !== 'healthy') await nextIteration();
    const back = await dial(port, caPem);
    expect(await ask(back)).toMatch(/first$/);
    back.destroy();
  } finally {
    for (const child of children) {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    }
  }
});

async function writeServerPem(path: string): Promise<string> {
  const keyPem = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'kubernetes', keyPem, nowMs: Date.now() });
  const certPem = await new KeyCertificateSigner({ caPem, keyPem, nowMs: () => Date.now() }).issue({
    commonName: 'kube-apiserver',
    usages: ['server'],
    names: [{ type: 'ip', value: '127.0.0.1' }],
    validDays: 1,
    pubKeyDer: pubKeyDerOf(keyPem),
  });
  await writeFile(path, `${certPem}\n${keyPem.reveal()}`);
  return caPem;
}

async function dial(port: number, ca: string): Promise<TLSSocket> {
  const socket = connect({ host: '127.0.0.1', port, ca });
  await once(socket, 'secureConnect');
  socket.on('error', () => undefined);
  return socket;
}

async function ask(socket: TLSSocket): Promise<string> {
  socket.write('GET /who HTTP/1.1\r\nHost: a\r\n\r\n');
  const [data] = (await once(socket, 'data')) as [Buffer];
  return data.toString();
}

async function told(path: string): Promise<readonly string[]> {
  let text = '';
  for await (const piece of connectLocal({ path })) text += String(piece);
  return (JSON.parse(text) as { upstreams: { verdict: string }[] }).upstreams.map(({ verdict }) => verdict);
}

function nextIteration(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
