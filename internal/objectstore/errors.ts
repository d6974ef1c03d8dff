import { defineErrors, errorClass, fault, retryable } from '../errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const objectStoreErrors = defineErrors({
  'objectstore-unreachable': retryable.peer.unreachable(
    'The S3-compatible store did not answer, or the connection broke.',
    'Check the address in --s3-endpoint and the network to it. Repeat the call; control planes repeat it automatically.',
  ),
  'objectstore-untrusted': fault.operator.refused(
    'The certificate of the S3-compatible store is not valid for its address, or no known CA has issued it. Nothing was sent.',
    'Name the CA of the store with --s3-ca, or give the store a valid certificate.',
  ),
  'objectstore-refused': fault.operator.refused(
    'The S3-compatible store refused the credentials or the request. The message has the code and the text of the store.',
    'Correct the access key, its rights in the bucket, the region, or the clock of the machine. If the key of a schedule is another one now, write it into backup-credentials of the workspace, and run the command that `cluster backup schedule show` prints.',
  ),
  'objectstore-missing': fault.operator.precondition(
    'The S3-compatible store has no such bucket or object.',
    'Create the bucket, or correct its name.',
  ),
  'objectstore-full': retryable.operator.unhealthy(
    'The S3-compatible store has no space left for this bucket. Objects that were there stay.',
    'Give the bucket more space, or keep fewer backups: run the command that `cluster backup schedule show` prints, with a lower --keep.',
  ),
  'objectstore-busy': retryable.peer.unreachable(
    'The S3-compatible store cannot answer now: it is overloaded, or has an error of its own.',
    'Wait, or look at the log of the store. Repeat the call; control planes repeat it automatically.',
  ),
  'objectstore-redirected': fault.operator.refused(
    'The S3-compatible store sent the caller to another address. No redirect is followed, because another server would then get a signed request.',
    'Name the address and the region of the bucket itself with --s3-endpoint and --s3-region.',
  ),
  'objectstore-answer-invalid': fault.peer.refused(
    'The answer of the S3-compatible store is too large, or is no valid answer of the S3 API.',
    'Check that --s3-endpoint is the address of an S3 API, without a path.',
  ),
  'objectstore-differs': retryable.system.unhealthy(
    'The bytes of an object in the S3-compatible store differ from the uploaded bytes.',
    'Look at the store: its disks, or a proxy before it, change data. Control planes delete the object and upload it again by themselves.',
  ),
  'objectstore-credentials-invalid': fault.operator.usage(
    'There are no credentials for the S3-compatible store, or they are not in the format of AWS: aws_access_key_id and aws_secret_access_key.',
    'Write both lines below `[default]` into the file backup-credentials of the workspace (mode 0600), or name another file with --s3-credentials. Then run the same command again.',
  ),
});

/** A code of this directory's errors. */
export type ObjectStoreCode = keyof typeof objectStoreErrors;

/** An S3-compatible store cannot be used. */
export class ObjectStoreError extends errorClass(objectStoreErrors) {}
