import { expect, test } from '@jest/globals';
import { contextOf } from '../cluster/curator/fake-curator.ts';
import { generateWorkspace, openWorkspace } from '../cluster/index.ts';
import { layoutOf } from '../workspace/index.ts';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { beginRestore } from './restore-backup.ts';

test('a restore deletes the saved new cluster CA of the workspace, because the backup may be older than that rotation', async () => {
  const files = new MemoryFiles();
  const context = contextOf(files, '/owner');
  await generateWorkspace(context, { name: 'prod' });
  const { clusterCa: path } = layoutOf('/owner');
  await files.writeAtomic(path, '{"version":1}');
  const restore = { fileSha256: 'ab'.repeat(32), epoch: 2 };
  await beginRestore(context, restore);
  expect(await files.stat(path)).toBeUndefined();
  await using workspace = await openWorkspace(context, 'test');
  expect(workspace.state.value).toMatchObject({ restore });
});
