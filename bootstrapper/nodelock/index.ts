/** The one-way node lock: it binds a machine to one cluster for good, by an init or by a join, never both. */
export { NodeLockError } from './errors.ts';
export { NodeLock, type LockRecord, type LockCounter, type LockRegister } from './node-lock.ts';
