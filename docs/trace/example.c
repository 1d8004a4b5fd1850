/* A page goes and its frame is freed, as a kernel would log it; with an argument, without the TLBI. `vellum judge` rules. */
#include "vellum_trace.h"

enum { ROOT = 0x40000000, LEVEL1 = 0x40001000, LEVEL2 = 0x40002000, LEVEL3 = 0x40003000 };

static void turn_mmu_on(unsigned cpu)
{
	vellum_trace_msr(cpu, "mair_el1", 0xff);
	vellum_trace_msr(cpu, "tcr_el1", 0x1500900010);
	vellum_trace_msr(cpu, "ttbr0_el1", 1ull << 48 | ROOT);
	vellum_trace_barrier(cpu, "isb");
	vellum_trace_msr(cpu, "sctlr_el1", 1);
	vellum_trace_barrier(cpu, "isb");
}

int main(int count, char **words)
{
	const vellum_u64 page = 0x60000080000703;
	unsigned cpu;

	(void)words;
	vellum_trace_begin();
	for (cpu = 0; cpu < 2; cpu++)
		/* What a Neoverse N1 says. */
		vellum_trace_cpu(cpu, 0x101125, 0x10212122, 0x1011, 0x100010211120, 0x100001);
	vellum_trace_memory(ROOT, LEVEL1 | 3);
	vellum_trace_memory(LEVEL1, LEVEL2 | 3);
	vellum_trace_memory(LEVEL2, LEVEL3 | 3);
	for (cpu = 0; cpu < 2; cpu++)
		turn_mmu_on(cpu);

	vellum_trace_store(0, LEVEL3, page);
	vellum_trace_barrier(0, "dsb ishst");
	vellum_trace_barrier(0, "isb");
	vellum_trace_load(0, LEVEL3, page);
	vellum_trace_exchange(0, LEVEL3, page, 0, page);
	vellum_trace_barrier(0, "dsb ishst");
	if (count == 1)
		vellum_trace_tlbi(0, "vaale1is", 0);
	vellum_trace_barrier(0, "dsb ish");
	vellum_trace_barrier(0, "isb");
	vellum_trace_free(0, "frame", 0x80000000, 0x1000);
	return 0;
}
