/*
 * Writes a trace for `vellum judge`: what a kernel does to its page tables and TLBs, one line for each event.
 * docs/trace-format.md tells what the lines mean, and what has to be traced.
 *
 * Where lines go is up to you: define VELLUM_TRACE_PRINT(...) before including this file (printk, a ring buffer, a UART).
 * It gets a format in printf's manner and its arguments, and must write the line whole. Without it, printf is used.
 *
 * The order of the lines is what is judged. Hold one lock around each line and the instruction it tells of; where that is
 * too dear, call the functions for stores, barriers and TLBIs before the instruction, those for loads and exchanges after.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VELLUM_TRACE_H
#define VELLUM_TRACE_H

#ifndef VELLUM_TRACE_PRINT
#include <stdio.h>
#define VELLUM_TRACE_PRINT(...) printf(__VA_ARGS__)
#endif

typedef unsigned long long vellum_u64;

/* First of all, once. */
static inline void vellum_trace_begin(void)
{
	VELLUM_TRACE_PRINT("vellum trace 1\n");
}

/* What CPU `cpu` can do, by the values of its ID registers. CPUs are told in order from 0, before the first event. */
static inline void vellum_trace_cpu(unsigned cpu, vellum_u64 id_aa64mmfr0_el1, vellum_u64 id_aa64mmfr1_el1,
				    vellum_u64 id_aa64mmfr2_el1, vellum_u64 id_aa64isar0_el1,
				    vellum_u64 id_aa64isar1_el1)
{
	unsigned parange = id_aa64mmfr0_el1 & 15, hafdbs = id_aa64mmfr1_el1 & 15, ets = id_aa64mmfr1_el1 >> 36 & 15;
	unsigned tgran4 = id_aa64mmfr0_el1 >> 28 & 15, tgran16 = id_aa64mmfr0_el1 >> 20 & 15;

	VELLUM_TRACE_PRINT("cpu %u bbm=%u hafdbs=%u ets=%u tlb=%u ttl=%u xs=%u cnp=%u lpa=%u lpa2=%u parange=%u\n", cpu,
			   (unsigned)(id_aa64mmfr2_el1 >> 52 & 3), hafdbs > 3 ? 3 : hafdbs, ets > 3 ? 3 : ets,
			   (unsigned)(id_aa64isar0_el1 >> 56 & 3), (unsigned)(id_aa64mmfr2_el1 >> 48 & 1),
			   (unsigned)(id_aa64isar1_el1 >> 56 & 1), (unsigned)(id_aa64mmfr2_el1 & 1),
			   (unsigned)((id_aa64mmfr2_el1 >> 16 & 15) != 0), (unsigned)(tgran4 == 1 || tgran16 == 2),
			   parange > 6 ? 6 : parange);
}

/* A descriptor that was there before the first event, in a table that somebody may walk. */
static inline void vellum_trace_memory(vellum_u64 address, vellum_u64 value)
{
	VELLUM_TRACE_PRINT("memory %#llx %#llx\n", address, value);
}

/* A load of a descriptor, by physical address, and what it saw. Optional: it shows stores that were not traced. */
static inline void vellum_trace_load(unsigned cpu, vellum_u64 address, vellum_u64 value)
{
	VELLUM_TRACE_PRINT("%u load %#llx %#llx\n", cpu, address, value);
}

/* A store to a table, or to a page that will be one. */
static inline void vellum_trace_store(unsigned cpu, vellum_u64 address, vellum_u64 value)
{
	VELLUM_TRACE_PRINT("%u store %#llx %#llx\n", cpu, address, value);
}

/* A compare-and-exchange that found `found`; it stored `value` if that is `expected`. A swap expects what it finds. */
static inline void vellum_trace_exchange(unsigned cpu, vellum_u64 address, vellum_u64 expected, vellum_u64 value,
					 vellum_u64 found)
{
	VELLUM_TRACE_PRINT("%u exchange %#llx %#llx %#llx %#llx\n", cpu, address, expected, value, found);
}

/* A barrier as the assembler has it: "dsb ish", "dmb ishst", "isb". "enter el1" and "enter el0" tell of exceptions,
 * "unlock" of a lock that is given away, "lock" of one that is taken. */
static inline void vellum_trace_barrier(unsigned cpu, const char *barrier)
{
	VELLUM_TRACE_PRINT("%u %s\n", cpu, barrier);
}

/* A TLBI by its name, such as "vae1is", and the 64 bits in its register (0 where it has none). */
static inline void vellum_trace_tlbi(unsigned cpu, const char *name, vellum_u64 operand)
{
	VELLUM_TRACE_PRINT("%u tlbi %s %#llx\n", cpu, name, operand);
}

/* A write of a translation register, such as "ttbr0_el1": a context switch, or the MMU being turned on. */
static inline void vellum_trace_msr(unsigned cpu, const char *name, vellum_u64 value)
{
	VELLUM_TRACE_PRINT("%u msr %s %#llx\n", cpu, name, value);
}

/* Memory gets another owner: `what` is "frame" or "table". */
static inline void vellum_trace_free(unsigned cpu, const char *what, vellum_u64 address, vellum_u64 bytes)
{
	VELLUM_TRACE_PRINT("%u free %s %#llx %#llx\n", cpu, what, address, bytes);
}

#endif
