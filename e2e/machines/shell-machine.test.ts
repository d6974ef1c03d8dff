import { expect, test } from '@jest/globals';
import { Machine } from './shell-machine.ts';

/** Far below the limits of the machine. */
const AT_ONCE_MS = 10_000;

test.each<{ name: string; command: readonly [string, ...string[]]; want: string }>([
  { name: 'does not exist', command: ['/nonexistent/qemu'], want: '/nonexistent/qemu did not start' },
  { name: 'is killed', command: ['sh', '-c', 'kill -KILL $$'], want: 'ended with SIGKILL' },
  { name: 'fails', command: ['sh', '-c', 'exit 3'], want: 'ended with status 3' },
])(
  'a machine whose program $name fails at once, and again for each command',
  async ({ command, want }) => {
    await using machine = new Machine([], command);
    const ended = {
      message: expect.stringContaining('the machine has ended'),
      cause: expect.objectContaining({ message: expect.stringContaining(want) }),
    };
    await expect(machine.started()).rejects.toMatchObject(ended);
    await expect(machine.sh('true')).rejects.toMatchObject(ended);
  },
  AT_ONCE_MS,
);

test(
  'a machine that is killed while a command runs fails that command at once',
  async () => {
    await using machine = new Machine([], ['sh', '-c', 'read -r line; kill -KILL $$']);
    await expect(machine.sh('sleep 60')).rejects.toMatchObject({
      message: 'sleep 60: the machine has ended',
      cause: { message: expect.stringContaining('ended with SIGKILL') },
    });
  },
  AT_ONCE_MS,
);
