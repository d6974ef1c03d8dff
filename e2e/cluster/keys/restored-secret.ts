import type { Harness } from '../../machines/harness.ts';
import { NodeShell } from '../harness/node-shell.ts';

const DRILL = 'keys-drill';

/**
 * Restores a backup onto a machine of its own, beside the running cluster, and returns what its API servers decrypt of a secret
 * in namespace `default`.
 */
export async function readFromBackup(
  bench: Harness,
  from: { readonly workspace: string; readonly file: string },
  secret: string,
): Promise<string> {
  const drill = ['mini', 'restore', '--name', DRILL, '--from', from.file, '--keep'];
  await bench.must('--workspace', from.workspace, ...drill);
  try {
    const shell = new NodeShell(bench, DRILL);
    const text = await shell.kubectl('get', 'secret', '-n', 'default', secret, '-o', 'jsonpath={.data.text}');
    return Buffer.from(text, 'base64').toString();
  } finally {
    await bench.must('mini', 'down', '--name', DRILL, '--yes');
  }
}
