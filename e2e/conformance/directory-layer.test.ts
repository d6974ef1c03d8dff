import { expect, test } from '@jest/globals';
import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { elfFile, FakeBuildTools, temporaryDirectory } from '../../internal/testing/index.ts';
import { fakeBuildContext } from '../../internal/bundlebuild/fake-build-context.ts';
import { directoryLayer } from './directory-layer.ts';

test('directoryLayer() has files with modes, links and directories, and no documentation', async () => {
  await using directory = await temporaryDirectory();
  const root = join(directory.path, 'root');
  await mkdir(join(root, 'usr/bin'), { recursive: true });
  await mkdir(join(root, 'usr/share/doc/su'), { recursive: true });
  await writeFile(join(root, 'usr/bin/su'), 'program');
  await chmod(join(root, 'usr/bin/su'), 0o4755);
  await writeFile(join(root, 'usr/share/doc/su/copyright'), 'text');
  await symlink('su', join(root, 'usr/bin/become'));
  const context = fakeBuildContext(new FakeBuildTools({ directory: directory.path, elf: elfFile() }));
  const entries = await directoryLayer(context, root);
  expect(entries.map(({ path }) => path).toSorted()).toEqual([
    ...['usr', 'usr/bin', 'usr/bin/become', 'usr/bin/su', 'usr/share'],
  ]);
  expect(entries.find(({ path }) => path === 'usr/bin/become')).toMatchObject({ target: 'su' });
  const program = entries.find(({ path }) => path === 'usr/bin/su');
  expect(program).toMatchObject({ type: 'file', mode: 0o4755, sizeBytes: 7 });
  const content = program?.type === 'file' ? await Array.fromAsync(program.content()) : [];
  expect(Buffer.concat(content).toString()).toBe('program');
});
