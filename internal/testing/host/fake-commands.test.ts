import { expect, test } from '@jest/globals';
import { FakeCommands } from './fake-commands.ts';

test('FakeCommands keeps no secret output, as the real runner', async () => {
  const commands = new FakeCommands(([program]) =>
    program === 'cat' ? 'typed' : { exitCode: 1, output: 'typed' },
  );
  const { signal } = new AbortController();
  const run = (program: string) => commands.run({ argv: [program], isOutputSecret: true, signal });
  expect(await run('cat')).toEqual({ exitCode: 0, stdout: '', stderr: '' });
  await expect(run('false')).rejects.toMatchObject({ outputTail: '' });
});
