import type { Command } from 'commander';
import type { ActionBinder } from '../../app/command.ts';
import { wholeNumber } from '../flags.ts';

const useCases = () => import('../../backup/index.ts');
const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

interface CreateFlags {
  readonly to?: string;
  readonly into?: string;
  readonly keep?: number;
  readonly prove?: true;
  readonly recipient?: readonly string[];
  readonly node?: string;
}

interface VerifyFlags {
  readonly recoveryKey?: string;
  readonly workDir?: string;
}

/** `cluster backup …`. */
export function register(backup: Command, action: ActionBinder): void {
  registerCreate(backup, action);
  backup
    .command('ls')
    .description('list the backups in a directory, and whether each is complete, unchanged and proved')
    .argument('<directory>', 'directory with backup files')
    .action(action(async (context, _flags, dir = '') => (await useCases()).runBackupList(context, dir)));
  backup
    .command('show')
    .description('show which cluster a backup is of, without a key')
    .argument('<file>', 'backup file')
    .action(action(async (context, _flags, file = '') => (await useCases()).runBackupShow(context, file)));
  backup
    .command('verify')
    .description('decrypt a backup and prove that both databases can be restored')
    .argument('<file>', 'backup file')
    .option('--recovery-key <file>', 'file with an age identity (default: the recovery key of the owner)')
    .option('--work-dir <directory>', 'directory for the decrypted data (default: /dev/shm)')
    .addHelpText(
      'after',
      `
Verifies the signatures and the owner's certificate, decrypts the file, restores
both etcd snapshots into empty data directories, and compares revision and hash
with what the control plane had. The decrypted data is deleted afterwards. The
result is saved beside the file (FILE.proof) and shown by ls. Needs no
cluster, but the bundle of the backup's Kubernetes version.`,
    )
    .action(
      action<VerifyFlags>(async (context, { recoveryKey, workDir }, file = '') =>
        (await useCases()).runBackupVerify(context, file, { recoveryKey, workDir }),
      ),
    );
  backup
    .command('delete')
    .description('delete a backup, but never the last good one of its cluster in its directory')
    .argument('<file>', 'backup file')
    .option('--yes', 'delete without asking')
    .action(
      action<{ readonly yes?: true }>(async (context, { yes }, file = '') =>
        (await useCases()).runBackupDelete(context, file, { yes: yes === true }),
      ),
    );
}

function registerCreate(backup: Command, action: ActionBinder): void {
  backup
    .command('create')
    .description('take a backup of the running cluster (owners only)')
    .option('--to <file>', 'file to write')
    .option(
      '--into <directory>',
      'existing directory for a new file with the name of the cluster and the time',
    )
    .option(
      '--keep <n>',
      'with --into: delete the oldest good backups above this number',
      wholeNumber(1, 10_000),
    )
    .option('--prove', 'with --into: decrypt the backup and restore it into an empty etcd first')
    .option(
      '--recipient <age1…>',
      'further recovery key that opens the backup; may be repeated',
      collect as (value: string, before: unknown) => readonly string[],
    )
    .option('--node <node>', 'control plane that takes it (default: any)')
    .addHelpText(
      'after',
      `
The file contains both etcd databases, the keys that all control planes share,
the stored configuration and the bundle manifest. The control plane encrypts it
in the age format to a recovery key that is derived from the owner key, and to
each --recipient. No node can decrypt it. The master secret and cluster.yaml are in
it too, encrypted on this workstation, so that file and owner key are enough for a
restore: keep them in different places. Volumes and images are not in it.

--into is made for a timer. It deletes nothing before the new backup is complete
(with --prove: proved), nothing but good backups of this cluster, and never the
newest proved one.

Examples:
  cluster backup create --to blue-2026-11-24.backup
  cluster backup create --into /backups --prove --keep 14
  cluster backup create --to blue.backup --recipient age1qyqszq…`,
    )
    .action(
      action<CreateFlags>(async (context, { to, into, keep, prove, recipient = [], node }) => {
        const { BackupCommandError, runBackupCreate, runBackupInto } = await useCases();
        const common = { recipients: recipient, node };
        if (into !== undefined && to === undefined)
          return runBackupInto(context, { ...common, directory: into, keep, prove: prove === true });
        if (to === undefined || into !== undefined || keep !== undefined || prove === true)
          throw new BackupCommandError('backup-target', 'creating a backup: one target expected');
        return runBackupCreate(context, { ...common, to });
      }),
    );
}
