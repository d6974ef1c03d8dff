import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { pressPowerButton } from './power-button.ts';

const never = new AbortController().signal;
const GREETING = '{"QMP": {"version": {}, "capabilities": []}}\r\n';
let directory: string;
let server: Server | undefined;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'cluster-monitor-'));
});
afterEach(() => {
  server?.close();
  rmSync(directory, { recursive: true, force: true });
});

/** A monitor that greets, and then answers each command. */
async function monitorOf(answer: (command: unknown, socket: Socket) => void): Promise<string> {
  const path = join(directory, 'monitor');
  server = createServer((socket) => {
    socket.write(GREETING);
    let text = '';
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      const lines = text.split('\n');
      text = lines.pop() ?? '';
      for (const line of lines) answer((JSON.parse(line) as { execute: unknown }).execute, socket);
    });
  });
  server.listen(path);
  await once(server, 'listening');
  return path;
}

describe('pressPowerButton()', () => {
  test('presses the button after it has chosen the capabilities of the monitor', async () => {
    const commands: unknown[] = [];
    const monitor = await monitorOf((command, socket) => {
      commands.push(command);
      socket.write('{"return": {}}\r\n');
    });
    expect(await pressPowerButton(monitor, never)).toBe(true);
    expect(commands).toEqual(['qmp_capabilities', 'system_powerdown']);
  });

  test.each<{ name: string; answer: (socket: Socket) => void }>([
    {
      name: 'refuses the command',
      answer: (socket) => socket.write('{"error": {"class": "GenericError"}}\r\n'),
    },
    { name: 'ends', answer: (socket) => socket.destroy() },
  ])('says that nothing was pressed if QEMU $name', async ({ answer }) => {
    const monitor = await monitorOf((_, socket) => answer(socket));
    expect(await pressPowerButton(monitor, never)).toBe(false);
  });

  test('says that nothing was pressed if QEMU does not run', async () => {
    expect(await pressPowerButton(join(directory, 'none'), never)).toBe(false);
  });

  test('stops waiting for an answer when its signal fires', async () => {
    const stop = new AbortController();
    const monitor = await monitorOf(() => stop.abort());
    expect(await pressPowerButton(monitor, stop.signal)).toBe(false);
    await expect(pressPowerButton(monitor, stop.signal)).rejects.toThrow('aborted');
  });
});
