/**
 * Reset of this machine: a request that an owner has signed removes its membership, its keys and all data of the
 * cluster.
 *
 * ```
 * curator ─ResetTask─▶ ResetOrders.accept: owner's signature, this node? ─▶ request on disk ─▶ the agent ends
 *                                                                                                    │ systemd
 * reset machine ◀─ request deleted ◀─ (TPM: reboot) ◀─ state deleted ◀─ units stopped ◀─ runReset ──┘ before anything else
 * ```
 * On a machine with an encrypted state disk, the reset destroys the records of the disk (its headers with the keys)
 * instead of deleting its files. This also destroys the request, which is on that disk.
 *
 * The request is written first and deleted last, and every step may be repeated. After any interruption, the next start
 * of the agent continues the reset. Nothing else removes the one-way node lock.
 */
export { runPendingReset, stopWorkloads } from './pending-reset.ts';
export { type ResetDisk } from './run-reset.ts';
export { ResetOrders } from './reset-orders.ts';
