import sys, time
sys.path.insert(0,'/work/main/bench')
import ctrl_cases as c
f,l=c.stream(100000)
ts=[]
for _ in range(int(sys.argv[1])):
    t=time.process_time(); s=c.ours(f,l); ts.append(time.process_time()-t)
print('switches',s,'min %.3f'%min(ts),['%.3f'%t for t in ts])
