import type { Command } from 'commander';
import { DAY_MS } from '../../../internal/clock/index.ts';
import type { ActionBinder } from '../../app/command.ts';
import type { StoreFlags } from '../../backup/index.ts';
import {
  confirmFrom,
  durationOption,
  SKIP_PROMPT,
  wholeNumber,
  withConfirmFlags,
  type ConfirmFlags,
} from '../flags.ts';

const useCases = () => import('../../backup/index.ts');
const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

interface CreateFlags {
  readonly to?: string;
  readonly into?: string;
  readonly keep?: number;
  readonly prove?: true;
  readonly workDir?: string;
  readonly recipient?: readonly string[];
  readonly node?: string;
  readonly skipChecks?: true;
}

interface VerifyFlags {
  readonly recoveryKey?: string;
  readonly workDir?: string;
}

/** `cluster backup …`. */
export function register(backup: Command, action: ActionBinder): void {
  registerCreate(backup, action);
  registerSchedule(backup, action);
  const list = backup
    .command('ls')
    .description('list the backups that control planes keep, or the backups in a directory or a store')
    .argument('[place]', 'directory with backup files, or s3://BUCKET/PREFIX (default: the cluster)')
    .option('--node <node>', 'only the backups that this node keeps');
  storeOptions(list)
    .addHelpText(
      'after',
      `
TAKEN: complete, not proved. CONTENT-PROVED: a control plane restored the
unencrypted data of the backup into a throwaway etcd, and found no difference from
the cluster.
FILE-PROVED: the file itself was decrypted and restored (cluster backup verify).

The command does not read the files in a store: fetch and verify the backup that
you need.`,
    )
    .action(
      action<StoreFlags & { readonly node?: string }>(async (context, { node, ...flags }, place) => {
        const cases = await useCases();
        if (place !== undefined && node !== undefined)
          throw new cases.BackupCommandError(
            'backup-list-target',
            'listing backups: cannot combine a directory with --node',
          );
        if (cases.isStoreUrl(place)) return cases.runStoreList(context, place, flags);
        cases.refuseStoreFlags(flags);
        return place === undefined
          ? cases.runClusterBackupList(context, { node })
          : cases.runBackupList(context, place);
      }),
    );
  const fetch = backup
    .command('fetch')
    .description('copy a backup from the control plane that keeps it (owners only), or from a store')
    .argument('[name]', 'name of the backup, or s3://BUCKET/KEY (default: the newest proved one)')
    .requiredOption('--to <file>', 'file to write');
  storeOptions(fetch)
    .addHelpText(
      'after',
      `
Fetching from a store needs no cluster and no workspace: after a loss of every
machine, fetch a backup and restore it (cluster restore).

Examples:
  cluster backup fetch --to newest.backup
  cluster backup ls s3://backups/blue --s3-endpoint https://s3.example.org
  cluster backup fetch s3://backups/blue/… --to blue.backup \\
    --s3-endpoint https://s3.example.org`,
    )
    .action(
      action<StoreFlags & { readonly to: string }>(async (context, { to, ...flags }, name) => {
        const cases = await useCases();
        if (cases.isStoreUrl(name)) return cases.runStoreFetch(context, { ...flags, url: name, to });
        cases.refuseStoreFlags(flags);
        return cases.runBackupFetch(context, { name, to });
      }),
    );
  backup
    .command('show')
    .description('show from which cluster a backup was taken (needs no key)')
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
  withConfirmFlags(
    backup
      .command('delete')
      .description('delete a backup, but never the last good one of its cluster in its directory')
      .argument('<file>', 'backup file'),
  ).action(
    action<ConfirmFlags>(async (context, flags, file = '') =>
      (await useCases()).runBackupDelete(context, file, confirmFrom(flags)),
    ),
  );
}

interface ScheduleFlags extends StoreFlags, ConfirmFlags {
  readonly every: number;
  readonly keep: number;
  readonly valid: number;
  readonly copyTo?: string;
  readonly recipient?: readonly string[];
}

/** The flags by which an S3-compatible store is reached. */
function storeOptions(command: Command): Command {
  return command
    .option('--s3-endpoint <url>', 'address of the S3-compatible store: https://HOST or https://HOST:PORT')
    .option('--s3-region <region>', 'region of the bucket (default: us-east-1)')
    .option(
      '--s3-ca <file>',
      'CA certificates of the store in PEM (default: the CA certificates of the machine)',
    )
    .option(
      '--s3-credentials <file>',
      'access key in the format of AWS, mode 0600 (default: backup-credentials in the workspace)',
    );
}

/** Help text of `--yes`: a schedule that drops nothing of the earlier one needs no confirmation. */
const SET_PROMPT = `${SKIP_PROMPT}; required without a terminal if the earlier schedule loses something`;

const SCHEDULE_HELP = `
Control planes take turns: the control plane with the oldest backup takes the next
backup. It restores the unencrypted data into a throwaway etcd and compares hash and
objects with the cluster: only then does the backup count. Each control plane keeps
its newest backups, and never deletes its last proved backup. No node can decrypt
a backup.

--copy-to is for a network file system: each control plane copies its proved
backups to DIRECTORY/CLUSTER-ID/NODE-ID, as many as it keeps. If the directory is
not available, backups are taken without delay, the doctor reports the problem, and
missing copies are made later. A directory on the machine's own disk is refused.

With --copy-to s3://BUCKET/PREFIX, control planes copy their backups to an
S3-compatible store in the same way. The command copies the access key from the file
of the workspace into a Secret that only control planes read: after a change of the
key, run this command again.

The signature names the current control planes: sign again after you add a control
plane. Backups contain the workspace as it was at the signature: sign again after
you change cluster.yaml.

The new schedule replaces the earlier one as a whole: repeat every flag that you
want to keep. The command asks if the new schedule drops something: copies,
recovery keys, or backups above a lower --keep.

Examples:
  cluster backup schedule set --every 6h --keep 7
  cluster backup schedule set --copy-to /mnt/backups
  cluster backup schedule set --copy-to s3://backups/blue \\
    --s3-endpoint https://s3.example.org
  cluster backup fetch --to newest.backup`;

function registerSchedule(backup: Command, action: ActionBinder): void {
  const schedule = backup.command('schedule').description('let control planes take backups by themselves');
  const set = schedule
    .command('set')
    .description('sign a schedule, which replaces the current schedule (owners only)')
    .addOption(durationOption('--every <duration>', 'time between two backups').default(DAY_MS / 4, '6h'))
    .option('--keep <n>', 'proved backups that each control plane keeps', wholeNumber(1, 1_000), 7)
    .addOption(
      durationOption(
        '--valid <duration>',
        'how long the signed schedule is valid; afterwards control planes take no backups',
      ).default(365 * DAY_MS, '365d'),
    )
    .option(
      '--copy-to <target>',
      'where each control plane copies its backups: an existing directory on another file system, or s3://BUCKET/PREFIX',
    )
    .option(
      '--recipient <age1…>',
      'further recovery key that opens the backups; may be repeated',
      collect as (value: string, before: unknown) => readonly string[],
    );
  withConfirmFlags(storeOptions(set), SET_PROMPT)
    .addHelpText('after', SCHEDULE_HELP)
    .action(
      action<ScheduleFlags>(async (context, { every, keep, valid, copyTo, recipient = [], ...flags }) => {
        const { dryRun: _dryRun, yes: _yes, ...store } = flags;
        return (await useCases()).runScheduleSet(context, {
          ...{ everyMs: every, keep, validMs: valid, copyTo, store, recipients: recipient },
          ...confirmFrom(flags),
        });
      }),
    );
  schedule
    .command('show')
    .description('show the schedule, who signed it, and the last failure')
    .action(action(async (context) => (await useCases()).runScheduleShow(context)));
  withConfirmFlags(
    schedule
      .command('stop')
      .description('end the schedule; the backups that control planes keep stay (owners only)'),
  ).action(
    action<ConfirmFlags>(async (context, flags) =>
      (await useCases()).runScheduleStop(context, confirmFrom(flags)),
    ),
  );
}

function registerCreate(backup: Command, action: ActionBinder): void {
  backup
    .command('create')
    .description('take a backup of the running cluster (owners only)')
    .option('--to <file>', 'file to write, or - for standard output')
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
    .option('--work-dir <directory>', 'with --prove: directory for the decrypted data (default: /dev/shm)')
    .option(
      '--recipient <age1…>',
      'further recovery key that opens the backup; may be repeated',
      collect as (value: string, before: unknown) => readonly string[],
    )
    .option('--node <node>', 'control plane that takes the backup (default: any)')
    .option('--skip-checks', 'take the backup although its data differs from that of the others')
    .addHelpText(
      'after',
      `
The file contains both etcd databases, the keys that all control planes share,
the stored configuration and the bundle manifest. The control plane encrypts it
in the age format to a recovery key that is derived from the owner key, and to
each --recipient. No node can decrypt the file. The file also contains the master
secret and cluster.yaml, encrypted on this workstation, so that the file and the
owner key are enough for a restore: keep them in different places. The file does
not contain volumes and images.

--to - writes the file to standard output and verifies the bytes as they pass. Only
exit code 0 means that the file is complete: let a script check the exit code
(set -o pipefail).

--into is made for a timer. The command deletes old backups only after the new
backup is complete (with --prove: proved). It deletes only good backups of this
cluster, and never the newest proved backup.

Examples:
  cluster backup create --to blue-2026-11-24.backup
  cluster backup create --into /backups --prove --keep 14
  set -o pipefail; cluster backup create --to - | ssh vault 'cat > blue.backup'
  cluster backup create --to blue.backup --recipient age1qyqszq…`,
    )
    .action(
      action<CreateFlags>(async (context, { to, into, keep, prove, workDir, recipient = [], ...choice }) => {
        const { BackupCommandError, runBackupCreate, runBackupInto } = await useCases();
        const chooseNode = async (): Promise<string | undefined> => {
          const { chooseBackupNode } = await import('../../doctor/index.ts');
          return chooseBackupNode(context, choice.node, choice.skipChecks ?? false);
        };
        const common = { recipients: recipient, chooseNode };
        if (into !== undefined && to === undefined && (workDir === undefined || prove === true))
          return runBackupInto(context, { ...common, directory: into, keep, prove: prove === true, workDir });
        if ([into, keep, prove, workDir].some((each) => each !== undefined) || to === undefined)
          throw new BackupCommandError('backup-target', 'creating a backup: one target expected');
        return runBackupCreate(context, { ...common, to });
      }),
    );
}
